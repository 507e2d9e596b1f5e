// Two small hash functions: one that turns (seed, step, rank, ...) into batches and first weights,
// one that sums up bytes. Nothing random is drawn from a generator with a state of its own: a
// restart at step N must draw what the first run drew.
#pragma once

#include <cstdint>
#include <span>

namespace train {

// splitmix64's finaliser: every bit of the result depends on every bit of the input.
constexpr uint64_t mix(uint64_t value) noexcept {
    value += 0x9e3779b97f4a7c15;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
}

// FNV-1a with 64 bits.
constexpr uint64_t fnv_start = 0xcbf29ce484222325;
inline uint64_t fnv1a(std::span<const std::byte> bytes, uint64_t hash = fnv_start) noexcept {
    for (const std::byte each : bytes) hash = (hash ^ static_cast<uint64_t>(each)) * 0x100000001b3;
    return hash;
}

}  // namespace train
