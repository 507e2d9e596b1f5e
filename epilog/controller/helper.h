// What happens after a requeue: dead nodes are freed of the job, and the job starts again without them and without
// delay.
//
// Every step may be done twice, and by two helpers at once: each asks Slurm first and sets what is so anyway.
#pragma once

#include "base/slurmd_probe.h"
#include "epilog/controller/slurm_tools.h"

#include <cstdint>
#include <functional>
#include <string>

namespace varde::controller {

struct requeue {
    std::string job;        // as read_job_name() has it
    std::string node_list;  // of the start that has ended, as Slurm wrote it
};

struct helper_limits {
    probe_limits probe;
    int total_ms = 180'000;
    int poll_ms = 200;
    int failures_max = 20;  // of squeue in a row: slurmctld may be restarting
    // slurmd (22.05 and others, not the newest) forgets an ended job only if it last tidied up two seconds ago.  A
    // job that starts there again sooner gets no Prolog, and so no agent.
    int forget_ms = 2'100;
    int end_look_ms = 1'000;
    int end_looks = 15;
    int start_look_ms = 1'500;
    int start_looks = 20;
};

// Tells `log` what it has done at once, one line each, because its deadline may end it at any moment; the failure that
// ended it comes last.  No line: the job was not being requeued.
using sink = std::function<void(const std::string& line)>;
void help(const requeue& what, const slurm_tools& slurm, const helper_limits& limits, const sink& log);

}  // namespace varde::controller
