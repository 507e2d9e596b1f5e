// Where memory is, and which CPUs are near it.
#pragma once

#include <optional>
#include <sched.h>
#include <string>
#include <string_view>

namespace varde::client {

// The CPUs of "0-3,8,12-15"; none where the text is no such list.
std::optional<cpu_set_t> parse_cpu_list(std::string_view text);

// Of the CPUs that this thread may use, those on the NUMA node where the page of `address` lies.  None where that is no
// choice: one node, no CPU of it allowed, or a kernel that does not tell.  `root` is in front of /sys, for tests.
std::optional<cpu_set_t> cpus_near(const void* address, const std::string& root = {});

}  // namespace varde::client
