// What Slurm and the job say to prolog and epilog, read from the environment and checked.  Any thread.
//
// SLURM_* come from slurmd.  SPANK_* are the user's words, whatever the plugin let through: anybody can send a job to
// slurmctld without our plugin, so every value is checked again here.
#pragma once

#include "base/options.h"

#include <cstdint>
#include <string>
#include <sys/types.h>

namespace varde::node {

struct request {
    uint32_t job_id = 0;
    uid_t uid = 0;
    gid_t gid = 0;
    uint32_t restart_count = 0;
    uint32_t node_count = 1;
    std::string user;            // as Slurm knows the name; may be empty
    std::string job_name;        // empty: this Slurm does not tell its prolog
    std::string work_directory;  // empty: not known
    options wish;
};

// getenv(): the environment that Slurm has made for this program.
const char* own_variable(const char* name) noexcept;

// SLURM_JOB_ID, from 1 to 2^32 - 1.
result<uint32_t> read_job_id(environment get);

result<request> read_request(environment get);

}  // namespace varde::node
