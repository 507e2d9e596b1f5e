// Which nodes have a slurmd that answers: TCP connections to many of them at once.
#pragma once

#include "base/slurm_nodes.h"

#include <cstdint>
#include <vector>

namespace varde {

struct probe_limits {
    // No answer at all for so long: the machine is dead or cut off.
    int silent_ms = 2'000;
    // Refused: the machine lives, only its slurmd does not.  A restart of slurmd must not cost the node its other jobs.
    int refused_ms = 10'000;
    int retry_ms = 250;
    // For the names of all nodes together: a name server that is away must not hold up the nodes whose names are known.
    int resolve_ms = 5'000;
    // Connections under way: the usual limit is 1,024 descriptors.
    size_t sockets_max = 512;
};

enum class sight : uint8_t {
    answered,
    silent,   // it took no connection, on none of its addresses, within the limit
    unknown,  // no look was possible: its name has no address, or we have no socket left; no sign of life or death
};

// Of each node, in the order given.  `port` is for nodes that have none of their own.
std::vector<sight> look_at(const std::vector<node_facts>& nodes, uint16_t port, const probe_limits& limits);

}  // namespace varde
