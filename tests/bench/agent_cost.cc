// What the agent takes from the node: CPU time for the bytes that it writes, and memory beyond the arena.
//
// 8 ranks of 3,000 tensors, as a node of 8 GPUs has them; the size is the bench's.
#include "trainer.h"

#include <algorithm>

namespace varde::bench {

namespace {

constexpr uint32_t look_ms = 10;

// Saves and looks at the agent's memory until all of it is durable.
result<uint64_t> save_and_watch(trainer& job, uint64_t step) {
    if (const result<void> saved = job.save(step); !saved) return saved.error();
    uint64_t most_bytes = 0;
    for (;;) {
        most_bytes = std::max(most_bytes, job.agent().memory_bytes());
        const result<void> durable = job.wait(look_ms);
        if (durable) return most_bytes;
        if (durable.error().what != code::timeout) return durable.error();
    }
}

}  // namespace

result<figures> agent_figures(const settings& with) {
    result<std::unique_ptr<trainer>> job =
        trainer::start(with, {.name = "agent", .ranks = 8, .size_bytes = with.size_bytes, .tensors = 3000});
    if (!job) return job.error();
    if (const result<uint64_t> fresh = (*job)->restore(); !fresh) return fresh.error();
    std::vector<double> seconds_per_gb, mib;
    for (uint64_t step = 1; step <= with.pairs + 1; ++step) {
        progress("agent_cpu_s_per_gb: checkpoint " + std::to_string(step) + " of " + std::to_string(with.pairs + 1));
        const double before_s = (*job)->agent().cpu_s();
        const result<uint64_t> most_bytes = save_and_watch(**job, step);
        if (!most_bytes) return most_bytes.error();
        mib.push_back(static_cast<double>(*most_bytes) / (1 << 20));
        if (step > 1)  // the first one also brings the ranks' pages into the arena
            seconds_per_gb.push_back(((*job)->agent().cpu_s() - before_s) / static_cast<double>(with.size_bytes) * 1e9);
    }
    if (const result<void> closed = (*job)->close(); !closed) return closed.error();
    const double most_mib = *std::max_element(mib.begin(), mib.end());
    figure memory =
        median_of("agent_overhead_mib", "MiB", mib, goal_kind::at_most, 64,
                  "8 ranks of 3,000 tensors; the most of all looks, every " + std::to_string(look_ms) + " ms");
    memory.value = most_mib;
    return figures{median_of("agent_cpu_s_per_gb", "s", seconds_per_gb, goal_kind::at_most, 0.25,
                             "user and system time of its processes for 10^9 bytes written"),
                   memory};
}

}  // namespace varde::bench
