// The node's memory: the two memfds that outlive worker and ranks (arena/control.h), reserved when they are promised.
#pragma once

#include "agent/placement.h"
#include "base/handle.h"
#include "base/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace varde::agent {

struct node_memory {
    unique_fd control_fd;
    unique_fd arena_fd;
    mapping control;
    mapping arena;
    bool huge = false;  // the arena's pages; only the process that made it knows
};

struct arena_wish {
    uint64_t size_bytes = 0;
    uint64_t huge_page_bytes = 0;      // 0: ordinary pages
    std::vector<arena_part> shares{};  // of the NUMA nodes, in proportion; empty: wherever the kernel likes
};

struct made_memory {
    node_memory memory;
    std::vector<arena_part> parts;
    std::string refusal;  // why it has no huge pages though they were wanted, or no place on NUMA nodes
};

// Makes both memfds, sealed against shrinking (a rank that truncated one would kill the agent with SIGBUS).  Huge pages
// are the kernel's to give at this moment; without them the arena has ordinary ones.  They make it larger than asked by
// 2 % at most, else it has ordinary ones, too.
result<made_memory> make_memory(const arena_wish& wish);

// Maps what the parent process has made.
result<node_memory> map_memory(unique_fd control_fd, unique_fd arena_fd);

// Faults in the arena, on several threads: from then on no write to it can fail.  For a thread of the parent; a large
// arena takes seconds.
result<void> reserve_memory(const mapping& arena);

// Locks the arena, piece by piece.  no_memory names need and limit.  Huge pages need none, they are never swapped.
result<void> lock_memory(const node_memory& memory);

}  // namespace varde::agent
