// Parallel steps: see parallel.h.
#include "store/parallel.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace varde::store {

void for_each_index(uint32_t count, const std::function<void(uint32_t)>& work) {
    // 2,048 files in 16 threads are 128 round trips each: 0.1 s at 1 ms.  Fewer calls than 32 are not worth a thread.
    constexpr uint32_t threads_max = 16;
    constexpr uint32_t calls_per_thread_min = 32;
    const uint32_t wanted = std::clamp(count / calls_per_thread_min, 1U, threads_max);
    std::atomic<uint32_t> next{0};
    const auto run = [&]() {
        for (uint32_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) work(i);
    };
    std::vector<std::thread> helpers;
    helpers.reserve(wanted);
    try {
        while (helpers.size() + 1 < wanted) helpers.emplace_back(run);
    } catch (const std::system_error&) {
        // No more threads for us (a process limit): those that run, at least this one, do all of it.
    }
    run();
    for (std::thread& helper : helpers) helper.join();
}

}  // namespace varde::store
