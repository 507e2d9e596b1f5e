// A run, as one rank has it open: what varde.h promises, without the C of it.
//
// One thread at a time; api.cc sees to that.  Behind it work the link (one thread) and the crew (a few, from the
// first restore or save on).
#pragma once

#include "client/copier.h"
#include "client/link.h"
#include "client/registry.h"
#include "client/settings.h"
#include "client/shared_part.h"

#include <atomic>
#include <memory>
#include <optional>

namespace varde::client {

// How long to wait for what; tests wait less.
struct patience {
    uint64_t open_ms = 60'000;
    uint64_t ring_ms = 120'000;     // a full ring of which nothing is released
    uint64_t restore_ms = 600'000;  // a restore without any frame
    uint64_t bye_ms = 2000;
    retry_times retry;
};

// What varde_due touches: the rank's page in the shared memory, or a page of nobody's when that is not safe.
struct progress_page {
    arena::rank_control nobody{};
    std::atomic<arena::rank_control*> live{&nobody};
};

struct counters {
    uint64_t incarnation = 0;
    uint64_t restored_step = 0;
    uint64_t saved_step = 0;
    uint64_t complete_step = 0;
    uint64_t failed_step = 0;
    uint64_t saves = 0;
    uint64_t staged_bytes = 0;
    uint64_t stall_ns = 0;
    uint64_t stall_ns_max = 0;
    uint64_t pinned_bytes = 0;
    uint64_t pin_error = 0;
};

class run {
public:
    static result<std::unique_ptr<run>> open(const settings& with, environment get, const process_facts& facts,
                                             const patience& times, progress_page& progress);
    ~run();

    result<void> add(pack::shard what, std::byte* data);
    result<void> remove(std::string_view name);
    result<void> order_after(void* stream);
    result<uint64_t> restore();
    result<void> save(uint64_t step);
    result<void> fence();
    result<void> wait(uint64_t timeout_ms);
    result<void> close();
    counters status() const;

private:
    run(const settings& with, const patience& times, progress_page& progress);
    result<void> map(const greeting& welcome);
    result<const arranged_range*> announce_layout();
    result<void> check_save(uint64_t step);
    result<void> settle();
    failure poison(failure why);
    result<void> order_copies();
    failure end_restore(failure why);
    void charge(uint64_t since_ns);

    settings with_;
    patience times_;
    progress_page& progress_;
    shared_part node_page_;
    shared_part rank_page_;
    shared_part slab_;
    uint64_t chunk_bytes_ = 0;
    gpu::devices gpus_;
    registry shards_;
    crew hands_;
    std::optional<copier> copier_;
    link link_;

    std::optional<failure> poisoned_;
    std::optional<failure> given_up_;  // why the newest save was
    uint64_t announced_version_ = 0;   // of the layout that the agent has
    uint64_t generation_stall_ns_ = 0;
    uint64_t copying_bytes_ = 0;
    bool restored_ = false;
    counters counters_;
};

}  // namespace varde::client
