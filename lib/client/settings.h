// What this run is: the caller's options over VARDE_... over what sbatch --ckpt-... left in the environment
// (SLURM_VARDE_...) over defaults.
//
// Read once, at varde_open.  Pure: the environment and the facts about the process come in.  Any thread.
#pragma once

#include "client/launcher.h"

#include <cstdint>
#include <string>

namespace varde::client {

// varde_options with the pointers taken over; empty and -1: not given.
struct given_options {
    std::string directory;
    std::string name;
    std::string socket;
    std::string launch;
    int64_t interval_s = -1;
    place_numbers numbers;
};

struct settings {
    place where;
    std::string directory;  // absolute
    std::string name;
    std::string socket;                                     // empty: look for it
    std::string job_id;                                     // of Slurm; empty: no job
    uint64_t interval_s = 0;                                // or interval_auto_s
    std::string keep, restart, max_restarts, hang_timeout;  // checked texts; empty: default
    bool batch = false;                                     // the job has a batch script, so it can be requeued
    bool in_place = false;                                  // `varde run` has started this step
    uint32_t copy_threads = 0;                              // 0: as many as is sensible
};

result<settings> read_settings(const given_options& given, environment get, const process_facts& facts,
                               const std::string& working_directory);

}  // namespace varde::client
