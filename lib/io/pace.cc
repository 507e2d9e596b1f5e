// Each transfer pushes the next one away by the time that it may take.
#include "io/pace.h"

#include "base/clock.h"

#include <algorithm>

namespace varde::io {

namespace {

// Who comes late (a sleep is rounded up, a thread waits for its CPU) may catch up by so much; more would be a burst.
constexpr uint64_t late_ns_max = 100 * ns_per_ms;

}  // namespace

void pace::begun(uint64_t bytes, uint64_t now_ns) noexcept {
    if (bytes_per_s_ == 0) return;
    const uint64_t earliest_ns = now_ns > late_ns_max ? now_ns - late_ns_max : 0;
    // A request is at most 1 GiB, so this fits; a rate is at least 1 MiB/s.
    next_ns_ = std::max(next_ns_, earliest_ns) + bytes * ns_per_s / bytes_per_s_;
}

}  // namespace varde::io
