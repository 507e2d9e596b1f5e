// How much memory this process may use: the node's, or less where a control group says so (a job step, a container).
#pragma once

#include "base/result.h"

#include <cstdint>
#include <string>

namespace varde::agent {

// The smallest of the node's memory and the limits of all control groups that this process is in, version 1 or 2.
// `root` is in front of /proc and /sys, for tests.
uint64_t usable_memory_bytes(const std::string& root = {});

}  // namespace varde::agent
