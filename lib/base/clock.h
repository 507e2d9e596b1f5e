// Time: `mono_ns` for every wait and age, `wall_ns` only for what people read.
#pragma once

#include <cstdint>
#include <ctime>

namespace varde {

constexpr uint64_t ns_per_s = 1'000'000'000;
constexpr uint64_t ns_per_ms = 1'000'000;

inline uint64_t clock_ns(clockid_t clock) noexcept {
    timespec now{};
    ::clock_gettime(clock, &now);  // cannot fail for these clocks
    return static_cast<uint64_t>(now.tv_sec) * ns_per_s + static_cast<uint64_t>(now.tv_nsec);
}
inline uint64_t mono_ns() noexcept { return clock_ns(CLOCK_MONOTONIC); }
inline uint64_t wall_ns() noexcept { return clock_ns(CLOCK_REALTIME); }

// A point on the monotonic clock that ends a wait.
class deadline {
public:
    static deadline in_ms(uint64_t ms) noexcept { return deadline(mono_ns() + ms * ns_per_ms); }
    static deadline at_ns(uint64_t ns) noexcept { return deadline(ns); }
    bool passed() const noexcept { return mono_ns() >= at_ns_; }
    // Milliseconds left, at least 0 and at most `most`: fits poll() and epoll_wait().
    int left_ms(int most = 1'000'000) const noexcept {
        const uint64_t now = mono_ns();
        if (now >= at_ns_) return 0;
        const uint64_t left = (at_ns_ - now + ns_per_ms - 1) / ns_per_ms;
        return left < static_cast<uint64_t>(most) ? static_cast<int>(left) : most;
    }
    uint64_t ns() const noexcept { return at_ns_; }

private:
    explicit deadline(uint64_t at) noexcept : at_ns_(at) {}
    uint64_t at_ns_;
};

}  // namespace varde
