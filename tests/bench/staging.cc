// What a save costs the training thread: how fast the copy to the arena is, and how long training stands still when
// the copy has its time to run beside it.
#include "peers.h"
#include "trainer.h"

#include "base/clock.h"
#include "base/limits.h"

#include <atomic>
#include <cstring>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

namespace varde::bench {

namespace {

constexpr uint64_t size_bytes = 1ULL << 30;
constexpr uint32_t wait_ms = 120'000;
constexpr useconds_t step_us = 400'000;  // a forward and backward pass, longer than the copy

result<double> stage(trainer& job, uint64_t step) {
    const uint64_t start = mono_ns();
    if (const result<void> saved = job.save(step); !saved) return saved.error();
    if (const result<void> fenced = job.fence(); !fenced) return fenced.error();
    const double took_s = seconds_since(start);
    if (const result<void> durable = job.wait(wait_ms); !durable) return durable.error();
    return took_s;
}

// memcpy by as many threads and in as large pieces as ours, into memory that is locked, too.
double copy_plainly(const mapping& source, const mapping& target, unsigned threads) {
    std::atomic<uint64_t> next{0};
    const auto copy = [&] {
        for (uint64_t at = 0; (at = next.fetch_add(limits::chunk_bytes_default)) < size_bytes;)
            std::memcpy(target.data() + at, source.data() + at, limits::chunk_bytes_default);
    };
    return seconds_of([&] {
        std::vector<std::thread> crew;
        for (unsigned i = 0; i < threads; ++i) crew.emplace_back(copy);
        for (std::thread& one : crew) one.join();
    });
}

// Milliseconds inside varde_save and varde_fence.
result<double> stall_once(trainer& job, uint64_t step) {
    uint64_t start = mono_ns();
    if (const result<void> saved = job.save(step); !saved) return saved.error();
    double stall_s = seconds_since(start);
    ::usleep(step_us);
    start = mono_ns();
    if (const result<void> fenced = job.fence(); !fenced) return fenced.error();
    stall_s += seconds_since(start);
    if (const result<void> durable = job.wait(wait_ms); !durable) return durable.error();
    return stall_s * 1000;
}

}  // namespace

result<figures> staging_figures(const settings& with) {
    result<std::unique_ptr<trainer>> job = trainer::start(with, {.name = "staging", .size_bytes = size_bytes});
    if (!job) return job.error();
    if (const result<uint64_t> fresh = (*job)->restore(); !fresh) return fresh.error();
    const result<mapping> locked = map_memory(size_bytes);
    if (!locked) return locked.error();
    const bool pinned = ::mlock(locked->data(), locked->size_bytes()) == 0;
    const unsigned threads = std::min(4U, std::thread::hardware_concurrency());  // as many as the library's own
    uint64_t step = 0;
    const auto seconds =
        take_turns(with, "staging_vs_copy",
                   {[&] { return stage(**job, ++step); },
                    [&]() -> result<double> { return copy_plainly((*job)->memory(), *locked, threads); }});
    if (!seconds) return seconds.error();
    const auto stalls = take_turns(with, "stall_ms_1gib", {[&] { return stall_once(**job, ++step); }});
    if (!stalls) return stalls.error();
    if (const result<void> closed = (*job)->close(); !closed) return closed.error();
    return figures{
        median_of("staging_vs_copy", "", speed_ratios(*seconds, 0, 1), goal_kind::at_least, 0.90,
                  speed_text(size_bytes, (*seconds)[0]) + " with " + std::to_string(threads) +
                      " threads while the agent "
                      "writes; memcpy " +
                      speed_text(size_bytes, (*seconds)[1]) + (pinned ? "" : " (its memory could not be locked)")),
        median_of("stall_ms_1gib", "ms", (*stalls)[0], goal_kind::at_most, 2,
                  "varde_save and varde_fence, " + std::to_string(step_us / 1000) + " ms apart")};
}

}  // namespace varde::bench
