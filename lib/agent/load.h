// The load: a generation's bytes, from its packs through the slabs into the ranks' memory.
//
// Runs on the mover thread.  A chunk is read into a free place of the rank's slab, verified, and only then shown to the
// rank, which copies what it needs and gives the place back (taken()).  Which bytes go where is pack::plan_restore's
// work, so the number of ranks or nodes may differ from that of the start that saved.  All ranks of the node are served
// in turn, so that they load in parallel.  Reads in place of those that have ended start before the next chunk is
// verified, because a device that waits for a checksum is idle.
#pragma once

#include "agent/log.h"
#include "arena/protocol.h"
#include "base/clock.h"
#include "io/engine.h"
#include "pack/layout.h"
#include "pack/plan.h"
#include "store/store.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

namespace varde::agent {

struct load_target {
    uint32_t local_rank = 0;
    pack::range wanted;
    std::byte* slab = nullptr;
    uint64_t slab_bytes = 0;
};

// Where the slabs may still have a generation's chunks: written there by its ranks, and not overwritten since, unless
// somebody has.  Checksums tell.
struct held_range {
    uint32_t rank = 0;
    const std::byte* slab = nullptr;
    uint64_t place_count = 0;
    uint64_t first_chunk = 0;
    uint64_t chunk_count = 0;
};
struct held_generation {
    store::generation_id id;  // step 0: none
    uint64_t chunk_bytes = 0;
    std::vector<held_range> ranges;
    uint32_t node_index = 0;  // in the start that saved: whose pack has the checksums
};

struct load_job {
    store::generation_id id;
    uint32_t node_index = 0, node_count = 0, world = 0;  // of this start
    uint32_t saved_node_count = 0;                       // of the generation
    uint64_t attempt = 0;
    uint64_t rank_wait_ms = 120'000;  // a rank that takes no chunk for so long is stuck
    std::vector<load_target> targets;
    held_generation held;
};

// One pack that is read: its checked header and seal.
struct load_source {
    uint32_t node_index = 0;
    std::string path;
    pack::image image;
    std::vector<uint64_t> sums;
    unique_fd fd;             // open while chunks are read from it
    io::held_file held;       // ... and let go before it is closed
    uint64_t steps_left = 0;  // of all ranks
};

// One chunk to read for one rank, and what the rank copies out of it (place_offset still counts from the chunk's
// start).
struct load_step {
    uint32_t source = 0;
    uint32_t range = 0;
    uint64_t chunk_in_range = 0;
    std::vector<arena::copy> copies;
};

// Cuts the pieces of a plan at the chunks of their sources.  `origin[i]` says which source and range `saved[i]` of the
// plan was.  Pure.
struct range_origin {
    uint32_t source = 0;
    uint32_t range = 0;
};
std::vector<load_step> cut_into_steps(const std::vector<pack::piece>& pieces, const std::vector<range_origin>& origin,
                                      const std::vector<load_source>& sources);

class load {
public:
    // `send` hands a chunk to a rank; called on the mover thread.
    using sender = std::function<void(uint32_t local_rank, const arena::restore_chunk& chunk)>;

    load(store::run_directory& run, load_job job, sender send, logger& log);

    // Loads everything; returns when every rank has taken its last chunk.  damaged: a pack breaks its format or a
    // checksum; mismatch: what is stored does not fit; other codes: the storage or a rank failed.
    result<void> carry_out(io::engine& engine);
    // What the ranks were sent, by where it came from.
    uint64_t memory_bytes() const noexcept { return memory_bytes_; }
    uint64_t storage_bytes() const noexcept { return storage_bytes_; }

    // Main loop: the rank has copied the chunk; or a rank is gone.
    void taken(uint32_t local_rank, uint64_t ticket);
    void cancel();

private:
    enum class holding : uint8_t { free, reading, sent };  // sent: the rank has not taken it yet
    struct lane {                                          // one rank's way
        std::vector<load_step> steps;
        size_t next = 0;              // step to read next
        std::vector<size_t> step_in;  // place -> step
        std::vector<holding> places;
        const held_range* held = nullptr;  // chunks are sent from where they lie, nothing is read
    };

    result<void> open_sources();
    result<bool> open_one_source(uint32_t node_index);
    result<load_source> open_source(uint32_t node_index);
    result<unique_fd> open_file(uint32_t node_index, uint64_t* ret_file_bytes) const;
    bool pack_suffices(const load_source& mine) const;
    result<void> make_lanes();
    result<void> run_lanes();
    const held_range* held_of(const load_target& target, const std::vector<load_step>& steps) const;
    result<bool> submit_next(size_t target);
    result<void> submit_read(size_t target, size_t place);
    bool send_held(size_t target);
    result<void> collect();
    result<void> verify_next();
    result<void> verify_and_send(size_t target, size_t place);
    result<void> wait_for_ranks();
    bool all_taken() const;
    static bool has_place(const lane& way);
    bool can_read() const;
    uint64_t ticket_of(size_t place) const noexcept { return job_.attempt << 32 | place; }

    store::run_directory& run_;
    io::engine* engine_ = nullptr;
    load_job job_;
    sender send_;
    logger& log_;
    std::vector<load_source> sources_;
    uint64_t place_bytes_ = 0;
    uint64_t memory_bytes_ = 0;
    uint64_t storage_bytes_ = 0;
    struct arrival {
        size_t target = 0;
        size_t place = 0;
    };
    std::deque<arrival> arrived_;  // read, and still to be verified

    std::mutex mutex_;  // guards lanes_[].places and cancelled_
    std::condition_variable changed_;
    std::vector<lane> lanes_;  // one per target
    bool cancelled_ = false;
};

}  // namespace varde::agent
