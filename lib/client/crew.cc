// The crew: one lock, two conditions; tasks are megabytes of copying, so the lock is not felt.
#include "client/crew.h"

#include <algorithm>
#include <sched.h>

namespace varde::client {

namespace {

// Few threads fill the memory bandwidth of a socket, and the training program needs its CPUs.
constexpr uint32_t sensible_max = 4;

}  // namespace

crew::~crew() {
    {
        const std::lock_guard lock(mutex_);
        leaving_ = true;
    }
    begun_.notify_all();
    for (thread& each : threads_) each.join();
}

uint32_t crew::sensible_size(uint32_t asked, bool mostly_wait) noexcept {
    if (asked > 0) return std::min(asked, threads_max);
    if (mostly_wait) return sensible_max;
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    // More CPUs than the set holds: certainly more than we want.
    if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return sensible_max;
    return std::clamp(static_cast<uint32_t>(CPU_COUNT(&allowed)), 1U, sensible_max);
}

result<void> crew::hire(uint32_t count, const std::optional<cpu_set_t>& cpus) {
    if (size_ > 0) return {};
    cpus_ = cpus;
    for (uint32_t i = 0; i < std::min(count, threads_max); i++) {
        auto started = threads_[i].start("varde-copy", enter, this);
        if (!started && i == 0) return started;
        if (!started) break;  // fewer threads are slower, not wrong
        size_++;
    }
    return {};
}

void* crew::enter(void* self) {
    static_cast<crew*>(self)->work();
    return nullptr;
}

void crew::work() {
    if (cpus_) discard(::sched_setaffinity(0, sizeof *cpus_, &*cpus_), "slower, not wrong");
    std::unique_lock lock(mutex_);
    for (;;) {
        begun_.wait(lock, [&] { return leaving_ || next_ < count_; });
        if (leaving_) return;
        const uint64_t index = next_++;
        lock.unlock();
        task_(context_, index);
        lock.lock();
        if (++done_ == count_) ended_.notify_all();
    }
}

void crew::begin(uint64_t count, task what, void* context) {
    {
        const std::lock_guard lock(mutex_);
        task_ = what;
        context_ = context;
        next_ = 0;
        done_ = 0;
        count_ = count;
    }
    begun_.notify_all();
}

void crew::wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return done_ == count_; });
}

}  // namespace varde::client
