// A memory control group of the agent's own: /sys/fs/cgroup[/memory]/varde/JOBID.
//
// Without it the arena is charged to slurmd's group, which may have a limit of its own, and no limit holds the
// agent.  It is made where the host has a memory hierarchy that root may write (v2 or v1); where not, the reason is
// kept for state.json.  Its path follows from the job's number: no file is needed to find it.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace varde::node {

// Where the memory controller is: of the text of /proc/self/mountinfo.  Pure.
struct memory_hierarchy {
    std::string path;      // mount point
    bool unified = false;  // cgroup v2
};
result<memory_hierarchy> find_memory_hierarchy(std::string_view mountinfo);

// unavailable: this host mounts no memory hierarchy.
result<std::string> cgroup_path(uint32_t job_id);

// Makes the group (or takes over what an earlier prolog of the job left) with a limit.
result<void> make_cgroup(uint32_t job_id, uint64_t limit_bytes);

// Moves a process into the group.
result<void> enter_cgroup(uint32_t job_id, pid_t pid);

// SIGKILLs all that is in it until it is empty, then removes it; `timeout_ms` bounds the whole.  No group is no
// failure.
result<void> remove_cgroup(uint32_t job_id, int timeout_ms);

}  // namespace varde::node
