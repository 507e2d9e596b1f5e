// Control groups of the agent's own, so that what it costs is not slurmd's and nothing that it starts gets away.
//
// They are /sys/fs/cgroup/CONTROLLER/varde/JOBID in v1, /sys/fs/cgroup/varde/JOBID in v2.  The memory controller's has
// the arena; without it that is charged to slurmd's group, which may have a limit of its own, and no limit holds
// the agent.  The pids controller's (in v2 the same group) bounds how often it may fork and can forbid that altogether,
// so that whoever forks faster than others can kill ends all the same.  Each is made where the host has the hierarchy
// and root may write it.  Their paths follow from the job's number: no file is needed to find them.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace varde::node {

// Where a controller ("memory") is: of the text of /proc/self/mountinfo.  unavailable: nowhere.  Pure.
struct hierarchy {
    std::string path;      // mount point
    bool unified = false;  // cgroup v2
};
result<hierarchy> find_hierarchy(std::string_view mountinfo, std::string_view controller);

// Of the group for memory.  unavailable: this host mounts no memory hierarchy.
result<std::string> cgroup_path(uint32_t job_id);

// Makes the group for memory (or takes over what an earlier prolog of the job left) with a limit.
result<void> make_cgroup(uint32_t job_id, uint64_t limit_bytes);

// Moves a process into it.
result<void> enter_cgroup(uint32_t job_id, pid_t pid);

// Moves a process into the group for tasks, which is made.  After that, no process that it starts can leave it.
result<void> hold_tasks(uint32_t job_id, pid_t pid);

// Forbids forks in the job's groups and SIGKILLs those who are in them.
void kill_cgroup(uint32_t job_id);

// The same until they are empty, then removes them; `timeout_ms` bounds the whole.  No group is no failure.
result<void> remove_cgroup(uint32_t job_id, int timeout_ms);

}  // namespace varde::node
