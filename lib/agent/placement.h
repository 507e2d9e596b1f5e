// Where on the node the arena's bytes lie, and which slab a rank gets.  Pure, but for place_part().
#pragma once

#include "base/handle.h"
#include "base/result.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace varde::agent {

constexpr int any_numa_node = -1;

// A piece of the arena, whose pages are wanted on one NUMA node.  The pieces follow one upon another.
struct arena_part {
    int numa_node = any_numa_node;
    uint64_t size_bytes = 0;
};

// The arena cut in proportion to `shares` (of any sum), at multiples of `page_bytes`; the last one takes what is left
// over.
std::vector<arena_part> cut_arena(std::span<const arena_part> shares, uint64_t arena_bytes, uint64_t page_bytes);

// The NUMA node of the part that has the byte; any_numa_node beyond them, or where there are none.
int numa_node_at(std::span<const arena_part> parts, uint64_t offset) noexcept;

// The slab for a rank that wants memory of `wanted` (a NUMA node, or any).  `nodes` has the NUMA node of each slab,
// `taken` the slab of each local rank that has one already.  Its own from an earlier start, if that is as good as any;
// else the one of its own number; else the first that is free; in each case one on the wanted node before the others.
uint32_t choose_slab(std::span<const int> nodes, std::span<const std::optional<uint32_t>> taken, uint32_t local_rank,
                     int wanted) noexcept;

// Has the pages of a part, none of which is there yet, come from its NUMA node while that has some; from others then.
result<void> place_part(std::byte* start, const arena_part& part);

}  // namespace varde::agent
