// The drain: one generation's chunks, from the slabs to a sealed pack.
//
// Runs on the mover thread; waits for ranks that still stage and for storage, and can be cancelled at any time.  Each
// chunk is checksummed once, when it is handed to the engine.  A failed write or fsync is final for that file: a retry
// writes a new one from memory.
#pragma once

#include "agent/log.h"
#include "arena/control.h"
#include "io/engine.h"
#include "io/pace.h"
#include "pack/layout.h"
#include "store/store.h"

#include <array>
#include <atomic>
#include <string>
#include <vector>

namespace varde::agent {

// One rank's part: chunks [first_chunk, first_chunk + chunk_count) of its slab.
struct drain_source {
    arena::rank_control* control = nullptr;
    std::byte* slab = nullptr;
    uint64_t place_count = 0;
    uint64_t first_chunk = 0;
    uint64_t chunk_count = 0;

    bool held() const noexcept { return chunk_count <= place_count; }  // all of it stays in the slab until it is sealed
    uint64_t end_chunk() const noexcept { return first_chunk + chunk_count; }
};

struct drain_job {
    std::array<uint64_t, 2> retry_pause_ms{2000, 10'000};  // storage that was full or away for a moment
    store::generation_id id;
    pack::image image;
    std::vector<drain_source> sources;   // sources[i] fills image.ranges[i]
    std::atomic<bool> cancelled{false};  // a rank has died or given up, or the incarnation was fenced
    std::atomic<uint64_t> bytes_done{0};
};

struct drain_outcome {
    bool sealed = false;
    failure why;  // where it is not sealed
    uint64_t seal_checksum = 0;
    uint64_t duration_ns = 0;
};

class drain {
public:
    // `direct_refused` is remembered by the caller from one generation to the next.
    drain(store::run_directory& run, io::engine& engine, arena::node_control* node, logger& log, bool& direct_refused,
          io::pace pace = {})
        : run_(run), engine_(engine), node_(node), log_(log), direct_refused_(direct_refused), pace_(pace) {}

    // Writes, seals and releases; after a failure tries again from memory where that is possible.
    drain_outcome carry_out(drain_job& job);

private:
    result<uint64_t> write_once(drain_job& job, int attempt_number);
    result<uint64_t> sealed_before(drain_job& job);
    void note_direct_refused(const std::string& path);
    bool may_retry(const drain_job& job, const failure& why, int attempt) const;
    void release_all(drain_job& job);

    store::run_directory& run_;
    io::engine& engine_;
    arena::node_control* node_;
    logger& log_;
    bool& direct_refused_;
    io::pace pace_;
};

// Lets go of chunks that no pack will have, as the rank stages them.  Once `cancelled` (the rank is gone or gives up)
// only for a moment more.
void discard_chunks(const drain_source& source, const std::atomic<bool>& cancelled);

// Sets `released` and wakes the rank.
void release(const drain_source& source, uint64_t released) noexcept;

}  // namespace varde::agent
