// The node's memory, of /proc/meminfo.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <string_view>

namespace varde::node {

struct node_memory {
    uint64_t total_bytes = 0;
    uint64_t available_bytes = 0;
};

result<node_memory> parse_meminfo(std::string_view text);  // pure
result<node_memory> read_node_memory();

// no_memory, with need, available and what to set.
result<void> check_arena_fits(uint64_t arena_bytes, const node_memory& node);

}  // namespace varde::node
