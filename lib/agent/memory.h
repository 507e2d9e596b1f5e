// The node's memory: the two memfds that outlive worker and ranks (arena/control.h), reserved when they are promised.
#pragma once

#include "base/handle.h"
#include "base/result.h"

#include <cstdint>

namespace varde::agent {

struct node_memory {
    unique_fd control_fd;
    unique_fd arena_fd;
    mapping control;
    mapping arena;
};

// Makes both memfds, sealed against shrinking (a rank that truncated one would kill the agent with SIGBUS).
result<node_memory> make_memory(uint64_t arena_bytes);

// Maps what the parent process has made.
result<node_memory> map_memory(unique_fd control_fd, unique_fd arena_fd);

// Faults in the arena, on several threads: from then on no write to it can fail.  For a thread of the parent; a large
// arena takes seconds.
result<void> reserve_memory(const mapping& arena);

// Locks the arena, piece by piece.  no_memory names need and limit.
result<void> lock_memory(const mapping& arena);

}  // namespace varde::agent
