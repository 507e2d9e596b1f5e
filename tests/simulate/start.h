// One start of the job: its ranks, which all take the same step at the same time, as long as all are there.
#pragma once

#include "store/store.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace varde::simulate {

struct start {
    std::string launch;
    uint64_t job_id = 0;
    uint64_t job_restarts = 0;  // what the agents were told at their start
    std::vector<uint32_t> hosts;
    uint64_t begun_ns = 0;
    uint64_t ready_ns = 0;    // its ranks ask for their state
    bool ranks_alive = true;  // but for those on dead machines
    uint64_t failures = 0;    // that it cannot survive
    uint64_t failed_ns = 0;   // the first of them
    bool died = false;        // ... was a machine that died in training
    uint64_t incarnation = 0;
    std::optional<store::generation_id> restored;  // once its first node trains
    uint32_t training_count = 0;                   // nodes whose ranks were let go

    // Training, by the clock: `base_step` at `base_ns`, and on from there while it moves.
    bool moving = false;
    uint64_t base_step = 0;
    uint64_t base_ns = 0;
    uint64_t step_ns = 1;

    uint64_t step(uint64_t now_ns) const noexcept {
        return base_step + (moving && now_ns > base_ns ? (now_ns - base_ns) / step_ns : 0);
    }
    // Some have begun the step at which the others wait for a lost peer.
    uint64_t step_of(uint32_t node_index, uint64_t now_ns) const noexcept {
        const bool has_moved = restored && base_step > restored->step;
        return step(now_ns) + (has_moved && !moving && node_index % 3 == 2 ? 1 : 0);
    }
    uint64_t time_of(uint64_t step) const noexcept { return base_ns + (step - base_step) * step_ns; }
    void stop(uint64_t now_ns) noexcept {
        base_step = step(now_ns);
        moving = false;
    }
    void go(uint64_t now_ns) noexcept {
        if (!moving) base_ns = now_ns;
        moving = true;
    }
};

}  // namespace varde::simulate
