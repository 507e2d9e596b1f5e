// Addresses of the Internet, version 4 and 6, and prefixes of them.  Numbers only: names are for who has a deadline.
// Pure; any thread.
#pragma once

#include "base/result.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace varde {

struct ip_address {
    bool six = false;
    std::array<uint8_t, 16> bytes{};  // in the order of the network; version 4 has the first four

    unsigned bits() const noexcept { return six ? 128 : 32; }
    bool operator==(const ip_address&) const = default;
};

// "10.213.1.250", "fd00::1"; no brackets, no port, no zone.
result<ip_address> parse_address(std::string_view text);
std::string format_address(const ip_address& address);

struct ip_prefix {
    ip_address address;
    unsigned length_bits = 0;

    bool contains(const ip_address& other) const noexcept;
    bool operator==(const ip_prefix&) const = default;
};

// "10.213.1.0/24", "fd00::/64"; bits beyond the length must be zero, because they are a mistake.
result<ip_prefix> parse_prefix(std::string_view text);
std::string format_prefix(const ip_prefix& prefix);

}  // namespace varde
