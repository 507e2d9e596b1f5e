// Futex calls and slab arithmetic of the shared memory.
#include "arena/control.h"

#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace varde::arena {

void ring(futex_word& word) noexcept {
    word.fetch_add(1, std::memory_order_release);
    // A failed wake costs a waiter its time-out, never more: waits are bounded.
    ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

void wait_while(futex_word& word, uint32_t seen, int timeout_ms) noexcept {
    const timespec timeout{timeout_ms / 1000, (timeout_ms % 1000) * 1'000'000L};
    // Every outcome (woken, changed, timed out, interrupted) means "look again", so the result does not matter.
    ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

slab_place place_slab(uint64_t arena_bytes, uint64_t chunk_bytes, uint32_t local_rank, uint32_t local_count) noexcept {
    if (local_count == 0 || chunk_bytes == 0 || local_rank >= local_count) return {};
    const uint64_t chunks = arena_bytes / local_count / chunk_bytes;
    if (chunks < 2) return {};
    const uint64_t size_bytes = chunks * chunk_bytes;
    return {local_rank * size_bytes, size_bytes};
}

}  // namespace varde::arena
