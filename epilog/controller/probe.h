// Which nodes have a slurmd that answers: TCP connections to all of them at once.
#pragma once

#include "epilog/controller/slurm_tools.h"

#include <cstdint>
#include <vector>

namespace varde::controller {

struct probe_limits {
    // No answer at all for so long: the machine is dead or cut off.
    int silent_ms = 2'000;
    // Refused: the machine lives, only its slurmd does not.  A restart of slurmd must not cost the node its other jobs.
    int refused_ms = 10'000;
    int retry_ms = 250;
};

// Names of the nodes that did not take a connection within their limit, in the order given.  `port` is for nodes that
// have none of their own.
std::vector<std::string> find_silent(const std::vector<node_facts>& nodes, uint16_t port, const probe_limits& limits);

}  // namespace varde::controller
