// Addresses of many nodes at once, with a deadline: getaddrinfo() has none.
#pragma once

#include "base/slurm_nodes.h"

#include <cstdint>
#include <sys/socket.h>
#include <vector>

namespace varde {

struct socket_address {
    sockaddr_storage bytes{};
    socklen_t size_bytes = 0;
};

// All addresses of each node, in the order given; none where the name is unknown or was not found in time.
std::vector<std::vector<socket_address>> resolve(const std::vector<node_facts>& nodes, uint16_t port, int timeout_ms);

}  // namespace varde
