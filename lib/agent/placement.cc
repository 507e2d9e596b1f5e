// mbind(2) by its number: no library is needed for one call.
#include "agent/placement.h"

#include "base/limits.h"
#include "base/units.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <linux/mempolicy.h>
#include <sys/syscall.h>

namespace varde::agent {

namespace {

bool is_taken(std::span<const std::optional<uint32_t>> taken, uint32_t slab, uint32_t but_by) noexcept {
    for (uint32_t rank = 0; rank < taken.size(); rank++)
        if (rank != but_by && taken[rank] == slab) return true;
    return false;
}

}  // namespace

std::vector<arena_part> cut_arena(std::span<const arena_part> shares, uint64_t arena_bytes, uint64_t page_bytes) {
    long double all = 0;
    for (const arena_part& share : shares) all += static_cast<long double>(share.size_bytes);
    std::vector<arena_part> parts;
    uint64_t begin = 0;
    long double sum = 0;
    for (const arena_part& share : shares) {
        sum += static_cast<long double>(share.size_bytes);
        const bool last = parts.size() + 1 == shares.size();
        const auto exact = all > 0 ? static_cast<uint64_t>(sum / all * static_cast<long double>(arena_bytes)) : 0;
        const uint64_t end = last ? arena_bytes : std::min(arena_bytes, exact / page_bytes * page_bytes);
        parts.push_back({share.numa_node, end - std::min(begin, end)});
        begin = end;
    }
    return parts;
}

int numa_node_at(std::span<const arena_part> parts, uint64_t offset) noexcept {
    for (const arena_part& part : parts) {
        if (offset < part.size_bytes) return part.numa_node;
        offset -= part.size_bytes;
    }
    return any_numa_node;
}

uint32_t choose_slab(std::span<const int> nodes, std::span<const std::optional<uint32_t>> taken, uint32_t local_rank,
                     int wanted) noexcept {
    const auto suits = [&](uint32_t slab, bool near) {
        return slab < nodes.size() && !is_taken(taken, slab, local_rank) &&
               (!near || wanted == any_numa_node || nodes[slab] == wanted);
    };
    for (const bool near : {true, false}) {
        const auto own = local_rank < taken.size() ? taken[local_rank] : std::nullopt;
        if (own && suits(*own, near)) return *own;
        if (suits(local_rank, near)) return local_rank;
        for (uint32_t slab = 0; slab < nodes.size(); slab++)
            if (suits(slab, near)) return slab;
    }
    return local_rank;  // not reached while there are as many slabs as ranks
}

result<void> place_part(std::byte* start, const arena_part& part) {
    if (part.numa_node == any_numa_node || part.size_bytes == 0) return {};
    constexpr size_t word_bits = sizeof(unsigned long) * CHAR_BIT;
    std::array<unsigned long, limits::numa_nodes_max / word_bits> mask{};
    const auto node = static_cast<size_t>(part.numa_node);
    if (node >= limits::numa_nodes_max)
        return fail(code::invalid, "NUMA node " + std::to_string(part.numa_node) + " is none");
    mask[node / word_bits] |= 1UL << node % word_bits;
    // The kernel takes the number of bits less one.  Preferred, not bound: a full NUMA node must not end anybody.
    if (::syscall(SYS_mbind, start, part.size_bytes, MPOL_PREFERRED, mask.data(), limits::numa_nodes_max + 1, 0) == 0)
        return {};
    return os_error(errno, "couldn't have " + format_bytes(part.size_bytes) + " of the arena on NUMA node " +
                               std::to_string(part.numa_node));
}

}  // namespace varde::agent
