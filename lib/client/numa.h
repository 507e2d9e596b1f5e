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

// The NUMA node of a PCI device, by its number ("0000:1B:00.0"); none where the firmware does not tell.
std::optional<int> numa_node_of_pci(std::string bus_id, const std::string& root = {});

// The NUMA node that has all CPUs this thread may use; none where they are of several, or the kernel does not tell.
std::optional<int> own_numa_node(const std::string& root = {});

}  // namespace varde::client
