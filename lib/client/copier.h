// Copies a rank's range into its slab, chunk by chunk, in the background: the writer's side of the ring in
// arena/control.h.
//
// Chunks are filled by several threads at once and published in order, none before the program's work on its GPUs that
// the generation comes after.  A full ring is waited for; when nothing is
// released for `patience_ms`, the copying ends with `timeout` and the generation has to be given up.  The numbers
// that the agent writes are checked: one that cannot be ends the copying with `internal`.
//
// One thread (the run's caller) calls everything here.
#pragma once

#include "arena/control.h"
#include "client/crew.h"
#include "client/registry.h"

#include <atomic>
#include <optional>
#include <span>

namespace varde::client {

struct source {
    const std::byte* data = nullptr;
    uint64_t offset_bytes = 0;  // within the range
    uint64_t size_bytes = 0;
    gpu::device* by = nullptr;  // who copies it; null: the host
};

// Fills `target` with the bytes [offset_bytes, + size) of the range that `sources` make up, in order: with those that
// the host copies, and zeros where there are none.  What a GPU copies is left out.
void assemble(std::span<const source> sources, uint64_t offset_bytes, std::span<std::byte> target) noexcept;

struct ring_memory {
    std::span<std::byte> slab;
    uint64_t chunk_bytes = 0;
    arena::rank_control* rank = nullptr;
    arena::node_control* node = nullptr;
};

class copier {
public:
    copier(crew& hands, gpu::devices& gpus, const ring_memory& ring, uint64_t patience_ms);

    // What to copy from now on; not while copying.
    void set_range(const arranged_range& range);
    uint64_t chunk_count() const noexcept { return chunk_count_; }

    // The number that the next generation's first chunk gets.  `unavailable` while the agent has not answered the last
    // give_up (the link then sets `staged` past the skipped numbers): until then it may take old bytes for new ones.
    result<uint64_t> next_chunk();
    // Starts copying to [next_chunk(), + chunk_count()).
    void begin();
    // Until the copying has ended; how it went: timeout, fenced, internal, or what a GPU had.  After a failure the rest
    // of its numbers is skipped.
    result<void> wait();
    // Begun, and not waited for.
    bool begun() const noexcept { return copying_; }
    // The copying has failed, though it may not have ended yet.
    bool failed() const noexcept { return failed_ != 0; }
    // Where the numbers go on after those of a failed generation.
    uint64_t next_after_skip() const noexcept { return next_; }

private:
    static void copy_one(void* self, uint64_t index);
    void copy(uint64_t index);
    result<void> fill(uint64_t offset_bytes, std::span<std::byte> target);
    bool wait_for_place(uint64_t number);
    void publish(uint64_t number);
    void stop_with(code why) noexcept;
    void stop_with(failure why);
    failure reason(code why) const;

    crew& hands_;
    gpu::devices& gpus_;
    ring_memory ring_;
    uint64_t place_count_;
    uint64_t patience_ms_;
    std::vector<source> sources_;
    bool on_gpu_ = false;  // some of them
    uint64_t size_bytes_ = 0;
    uint64_t chunk_count_ = 0;

    uint64_t first_ = 0;                      // of the generation being copied
    uint64_t next_ = 0;                       // after it
    bool copying_ = false;                    // begun, not waited for
    bool skipping_ = false;                   // the last generation was given up, the agent has not answered yet
    std::atomic<int> failed_{0};              // a code
    std::atomic<uint64_t> published_{0};      // == staged
    std::atomic<uint64_t> released_seen_{0};  // the agent's number never falls

    std::mutex mutex_;                // what follows
    std::vector<uint8_t> filled_;     // per place: filled, not published yet
    std::optional<failure> gpu_why_;  // the first of a GPU
};

}  // namespace varde::client
