// What the kernel tells of a rank's process, without touching it: from /proc, as the job's user.  Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <sys/types.h>

namespace varde::agent {

struct rank_process {
    bool there = false;
    char state = '?';           // of its first thread: R runs, S waits, D waits in the kernel, T stopped, t traced
    bool traced = false;        // a debugger is attached
    uint64_t processor_ns = 0;  // what all its threads have used so far

    bool stopped() const noexcept { return state == 'T'; }
};

rank_process look_at_process(pid_t pid);

// Of the texts of /proc/PID/stat and /proc/PID/status.  Pure.
rank_process parse_process(const std::string& stat, const std::string& status, uint64_t ticks_per_s);

}  // namespace varde::agent
