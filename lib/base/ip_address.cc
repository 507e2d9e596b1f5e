// inet_pton() on bounded text, and comparison of leading bits.
#include "base/ip_address.h"

#include "base/units.h"

#include <arpa/inet.h>
#include <cstring>

namespace varde {

namespace {

// The first `count` bits of both are the same.
bool same_bits(const ip_address& a, const ip_address& b, unsigned count) noexcept {
    const unsigned whole = count / 8;
    if (std::memcmp(a.bytes.data(), b.bytes.data(), whole) != 0) return false;
    if (count % 8 == 0) return true;
    const auto mask = static_cast<uint8_t>(0xffU << (8 - count % 8));
    return (a.bytes[whole] & mask) == (b.bytes[whole] & mask);
}

}  // namespace

result<ip_address> parse_address(std::string_view text) {
    ip_address found;
    const std::string whole(text.substr(0, INET6_ADDRSTRLEN));
    found.six = whole.find(':') != std::string::npos;
    if (whole.find('\0') == std::string::npos && text.size() < INET6_ADDRSTRLEN &&
        ::inet_pton(found.six ? AF_INET6 : AF_INET, whole.c_str(), found.bytes.data()) == 1)
        return found;
    return fail(code::invalid, "'" + printable(text) + "' is no IP address");
}

std::string format_address(const ip_address& address) {
    char text[INET6_ADDRSTRLEN] = "";
    ::inet_ntop(address.six ? AF_INET6 : AF_INET, address.bytes.data(), text, sizeof text);
    return text;
}

bool ip_prefix::contains(const ip_address& other) const noexcept {
    return other.six == address.six && same_bits(address, other, length_bits);
}

result<ip_prefix> parse_prefix(std::string_view text) {
    const size_t slash = text.find('/');
    const auto address = parse_address(text.substr(0, slash));
    if (!address) return address.error();
    if (slash == std::string_view::npos) return fail(code::invalid, "it has no length, such as /24");
    const auto length = parse_number(text.substr(slash + 1), address->bits());
    if (!length) return fail(code::invalid, "its length is no number up to " + std::to_string(address->bits()));
    const ip_prefix found{*address, static_cast<unsigned>(*length)};
    ip_address first = *address;
    for (unsigned bit = found.length_bits; bit < first.bits(); bit++)
        first.bytes[bit / 8] &= static_cast<uint8_t>(~(0x80U >> (bit % 8)));
    if (first != found.address)
        return fail(code::invalid, "it has bits beyond its length; " + format_prefix({first, found.length_bits}) +
                                       " is the network that it lies in");
    return found;
}

std::string format_prefix(const ip_prefix& prefix) {
    return format_address(prefix.address) + "/" + std::to_string(prefix.length_bits);
}

}  // namespace varde
