// A few threads that work through numbered tasks, in ascending order: the muscles of the copier and of the restore.
//
// One owner thread calls everything here; the tasks run on the crew.  No memory is taken after hire().
#pragma once

#include "base/result.h"
#include "client/thread.h"

#include <array>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <sched.h>

namespace varde::client {

class crew {
public:
    using task = void (*)(void* context, uint64_t index);

    crew() = default;
    ~crew();
    crew(const crew&) = delete;
    crew& operator=(const crew&) = delete;

    // Starts up to `count` threads, once; later calls do nothing.  An error only where not even one could be started.
    // They stay on `cpus`, where that is given.
    result<void> hire(uint32_t count, const std::optional<cpu_set_t>& cpus = std::nullopt);

    // Starts what(context, 0 ... count-1); the tasks before must have been waited for.  Task i is begun before task
    // i+1.
    void begin(uint64_t count, task what, void* context);
    // Until every task has ended.
    void wait();

    static constexpr uint32_t threads_max = 64;
    // min(4, CPUs that this thread may use), or what was asked for.  4 where they mostly wait, for a GPU.
    static uint32_t sensible_size(uint32_t asked, bool mostly_wait = false) noexcept;

private:
    static void* enter(void* self);
    void work();

    mutable std::mutex mutex_;
    std::condition_variable begun_;
    std::condition_variable ended_;
    task task_ = nullptr;
    void* context_ = nullptr;
    uint64_t next_ = 0;  // to be begun
    uint64_t done_ = 0;
    uint64_t count_ = 0;
    bool leaving_ = false;
    uint32_t size_ = 0;
    std::optional<cpu_set_t> cpus_;
    std::array<thread, threads_max> threads_;
};

}  // namespace varde::client
