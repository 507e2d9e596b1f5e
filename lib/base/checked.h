// Checked arithmetic for numbers that come from a file, a socket or a user.
#pragma once

#include <cstdint>
#include <optional>

namespace varde {

[[nodiscard]] inline std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) noexcept {
    uint64_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
    return sum;
}

[[nodiscard]] inline std::optional<uint64_t> checked_multiply(uint64_t a, uint64_t b) noexcept {
    uint64_t product = 0;
    if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
    return product;
}

// `alignment` is a power of two.  The caller has made sure that the sum fits (limits.h).
[[nodiscard]] constexpr uint64_t align_up(uint64_t value, uint64_t alignment) noexcept {
    return (value + alignment - 1) & ~(alignment - 1);
}

}  // namespace varde
