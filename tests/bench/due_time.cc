// Nanoseconds of one varde_due, through the shared library as a training program calls it, with a real agent behind it.
#include "trainer.h"

#include "base/clock.h"

namespace varde::bench {

result<figures> due_figures(const settings& with) {
    constexpr uint64_t calls = 5'000'000;
    result<std::unique_ptr<trainer>> job = trainer::start(with, {.name = "due", .size_bytes = 4 << 20});
    if (!job) return job.error();
    if (const result<uint64_t> fresh = (*job)->restore(); !fresh) return fresh.error();
    uint64_t step = 0;
    std::vector<double> times;
    for (unsigned round = 0; round < with.pairs; ++round) {
        // CPU time: what other programs take from this thread is not the call's.
        const uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        for (uint64_t call = 0; call < calls; ++call)
            discard(varde_due((*job)->run(0), ++step), "only its time matters");
        times.push_back(static_cast<double>(clock_ns(CLOCK_THREAD_CPUTIME_ID) - start) / calls);
    }
    if (const result<void> closed = (*job)->close(); !closed) return closed.error();
    return figures{
        median_of("due_ns", "ns", times, goal_kind::at_most, 10, std::to_string(calls) + " calls each time")};
}

}  // namespace varde::bench
