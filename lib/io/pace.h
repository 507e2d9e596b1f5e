// Keeps transfers below a rate: who asks before each one, and says what it began, stays within it.
//
// Pure arithmetic on a clock that the caller reads; one owner.
#pragma once

#include <cstdint>

namespace varde::io {

class pace {
public:
    pace() = default;  // no limit
    explicit pace(uint64_t bytes_per_s) noexcept : bytes_per_s_(bytes_per_s) {}

    // Something may begin now.
    bool open(uint64_t now_ns) const noexcept { return bytes_per_s_ == 0 || now_ns >= next_ns_; }
    // Until then nothing may; 0 where there is no limit.
    uint64_t next_ns() const noexcept { return next_ns_; }
    void begun(uint64_t bytes, uint64_t now_ns) noexcept;

private:
    uint64_t bytes_per_s_ = 0;
    uint64_t next_ns_ = 0;
};

}  // namespace varde::io
