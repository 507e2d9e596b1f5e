// The interval between checkpoints where the job leaves it to us (--ckpt-interval=auto).
#pragma once

#include <cstdint>

namespace varde::agent {

struct checkpoint_cost {
    uint64_t stall_ns = 0;  // training stood still
    uint64_t drain_ns = 0;  // the storage was busy, while training went on

    bool operator==(const checkpoint_cost&) const = default;
};

// Flash wears and other jobs use the storage too: a stall of a millisecond is no reason to write all the time.  The
// first generation of a run, of which nothing is known yet, comes after it.
constexpr uint64_t automatic_interval_min_ns = 60'000'000'000;

// The interval at which what failures throw away and what checkpoints cost add up to the least: J. T. Daly, "A higher
// order estimate of the optimum checkpoint interval for restart dumps", Future Generation Computer Systems 22 (2006),
//     T = sqrt(2CM) (1 + sqrt(C / 2M) / 3 + C / 2M / 9) - C    for C < 2M, else M,
// whose first term is that of J. W. Young, Communications of the ACM 17 (1974).  C is the stall, as a drain costs no
// training time; M the job's mean time between failures.
uint64_t daly_interval_ns(uint64_t cost_ns, uint64_t mtbf_ns) noexcept;

// Never below the drain: the next generation would only wait for it.
uint64_t automatic_interval_ns(const checkpoint_cost& cost, uint64_t mtbf_ns) noexcept;

}  // namespace varde::agent
