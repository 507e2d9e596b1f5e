// The pace on a clock of its own: whatever the sizes and however late its caller, the rate is what was set.
#include "io/pace.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <random>

using namespace varde;
using varde::io::pace;

namespace {

// Bytes per second over 20 seconds, where each wake-up is late by up to `late_ns` and storage holds no one up.
double rate_of(pace of, uint64_t size_bytes, uint64_t late_ns) {
    std::mt19937_64 random(5);
    const uint64_t start_ns = 1000 * ns_per_s;
    uint64_t now_ns = start_ns;
    uint64_t bytes = 0;
    while (now_ns < start_ns + 20 * ns_per_s) {
        if (of.open(now_ns)) {
            of.begun(size_bytes, now_ns);
            bytes += size_bytes;
        } else {
            now_ns = of.next_ns() + random() % (late_ns + 1);
        }
    }
    return static_cast<double>(bytes) * static_cast<double>(ns_per_s) / static_cast<double>(now_ns - start_ns);
}

}  // namespace

Test(pace, holds_within_a_tenth) {
    for (const uint64_t rate : {1ULL << 20, 100ULL << 20, 1ULL << 30, 20ULL << 30}) {
        for (const uint64_t size_bytes : {4096ULL, 1ULL << 20, 4ULL << 20}) {
            if (size_bytes > rate || rate / size_bytes > 100'000) continue;  // no pace, or no end
            for (const uint64_t late_ns : {uint64_t{0}, ns_per_ms, 50 * ns_per_ms}) {
                const double got = rate_of(pace(rate), size_bytes, late_ns) / static_cast<double>(rate);
                cr_expect(got > 0.9 && got < 1.1, "%lu B/s in pieces of %lu, late by %lu ns: %.3f of it", rate,
                          size_bytes, late_ns, got);
            }
        }
    }
}

Test(pace, makes_no_burst_of_a_long_pause) {
    pace of(100 << 20);
    uint64_t bytes = 0;
    const uint64_t now_ns = 1000 * ns_per_s;
    while (of.open(now_ns)) {
        of.begun(1 << 20, now_ns);
        bytes += 1 << 20;
    }
    cr_assert_leq(bytes, 12 << 20, "a tenth of a second's worth, and the piece that closes it");
}

Test(pace, without_a_limit_is_always_open) {
    pace of;
    for (int i = 0; i < 1000; i++) of.begun(1ULL << 30, 0);
    cr_assert(of.open(0) && of.next_ns() == 0);
}
