// The shared memory of a node: what an agent and its ranks agree on without a message.
//
// Two memfds, both made and held by the agent's parent process, so that they outlive the agent's worker and the ranks:
//   control  node_control, then one rank_control per local rank, a page each
//   arena    one slab per local rank, back to back
//
// A slab is a ring of chunks.  Chunks have sequence numbers that grow for ever; chunk k lies in place k %
// place_count.  The rank is the only writer of `staged` (chunks below it hold bytes), the agent the only writer of
// `released` (chunks below it may be overwritten), and the rank may write chunk k while k - released < place_count.
// One generation takes the chunks [first, first + count) of the rank's range, so one mechanism serves a slab that
// holds two generations, one, or only a part of one.
//
// A wild write of the training program can damage these pages; each side checks every number that it reads from them.
#pragma once

#include "base/limits.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace varde::arena {

constexpr uint64_t control_magic = 0x314C525444524156;  // "VARDTRL1" read as little-endian
constexpr uint32_t control_version = 1;

// Words that are waited on with a futex (shared, not private: the waiters are in several processes).
using futex_word = std::atomic<uint32_t>;

// Pages that nobody has faulted in yet may not be had when a rank first writes to them.
enum class reservation : uint32_t { under_way = 0, done = 1, failed = 2 };

struct node_control {
    uint64_t magic;
    uint32_t version;
    uint32_t reserved;
    alignas(64) futex_word doorbell;       // ranks add 1 and wake: chunks were staged
    alignas(64) futex_word news;           // the agent adds 1 and wakes: one of the words below has changed
    std::atomic<uint32_t> fenced;          // 1: a newer incarnation exists, nothing is written any more
    std::atomic<uint64_t> complete_step;   // newest generation complete on all nodes, in this incarnation
    std::atomic<uint64_t> failed_step;     // newest generation that was given up
    std::atomic<reservation> arena_state;  // of the arena's pages
};

struct rank_control {
    // Written by the agent.
    alignas(64) std::atomic<uint64_t> due_step;  // varde_due(step) is true for this step; 0: none
    alignas(64) std::atomic<uint64_t> released;  // chunks
    futex_word released_news;                    // added to and woken with `released`
    // Written by the rank.
    alignas(64) std::atomic<uint64_t> progress_step;  // newest step given to varde_due or varde_save
    alignas(64) std::atomic<uint64_t> saving_step;    // newest step given to varde_save, set before it returns
    std::atomic<uint64_t> staged;                     // chunks
    std::atomic<uint64_t> stall_ns;                   // the newest generation's, so far
};

static_assert(sizeof(node_control) <= limits::page_bytes);
static_assert(sizeof(rank_control) <= limits::page_bytes);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

constexpr uint64_t control_bytes = (1 + uint64_t{limits::local_ranks_max}) * limits::page_bytes;

inline node_control* node_of(std::byte* control) noexcept { return reinterpret_cast<node_control*>(control); }
inline rank_control* rank_of(std::byte* control, uint32_t local_rank) noexcept {
    return reinterpret_cast<rank_control*>(control + (1 + uint64_t{local_rank}) * limits::page_bytes);
}

// Adds 1 and wakes every waiter.
void ring(futex_word& word) noexcept;
// Waits until the word differs from `seen`, for at most `timeout_ms`.
void wait_while(futex_word& word, uint32_t seen, int timeout_ms) noexcept;

// Where the slab of each rank lies.
struct slab_place {
    uint64_t offset = 0;      // in the arena
    uint64_t size_bytes = 0;  // multiple of chunk_bytes
};
// Equal slabs; size 0 where the arena is too small for two chunks per rank.
slab_place place_slab(uint64_t arena_bytes, uint64_t chunk_bytes, uint32_t local_rank, uint32_t local_count) noexcept;

}  // namespace varde::arena
