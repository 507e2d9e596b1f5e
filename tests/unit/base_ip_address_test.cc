// Addresses and prefixes as administrators and mounts write them.
#include "base/ip_address.h"

#include <criterion/criterion.h>

using namespace varde;

Test(ip_address, reads_what_it_writes) {
    for (const char* text : {"10.213.1.250", "0.0.0.0", "255.255.255.255", "::", "::1", "fd00::1:2", "fe80::a:b:c:d"}) {
        const auto address = parse_address(text);
        cr_assert(address.has_value(), "%s", text);
        cr_assert(format_address(*address) == text, "%s", format_address(*address).c_str());
    }
    cr_assert(*parse_address("::ffff:10.0.0.1") != *parse_address("10.0.0.1"));
}

Test(ip_address, refuses_everything_else) {
    for (const char* text : {"", "10.1", "10.1.2.3.4", "10.1.2.256", "010.1.2.3 ", "[::1]", "fe80::1%eth0", "host",
                             "1:2:3:4:5:6:7:8:9:10:11:12:13:14:15:16:17:18:19:20:21:22:23:24"})
        cr_assert(!parse_address(text).has_value(), "%s", text);
    using namespace std::string_view_literals;
    cr_assert(!parse_address("10.1.2.3\0"sv).has_value());
    cr_assert(!parse_address("10.1.2.3\0.x"sv).has_value());
}

Test(ip_address, a_prefix_holds_its_network_and_no_other) {
    const auto net = parse_prefix("10.213.0.0/20");
    cr_assert(net.has_value() && format_prefix(*net) == "10.213.0.0/20");
    for (const char* in : {"10.213.0.0", "10.213.15.255"}) cr_assert(net->contains(*parse_address(in)), "%s", in);
    for (const char* out : {"10.213.16.0", "10.212.255.255", "::", "ad5::"})
        cr_assert(!net->contains(*parse_address(out)), "%s", out);
    cr_assert(parse_prefix("0.0.0.0/0")->contains(*parse_address("192.0.2.7")));
    const auto six = parse_prefix("fd00:1::/33");
    cr_assert(six->contains(*parse_address("fd00:1:7fff::9")) && !six->contains(*parse_address("fd00:1:8000::")));
    cr_assert(parse_prefix("fd00::1/128")->contains(*parse_address("fd00::1")));
}

Test(ip_address, refuses_a_wrong_prefix) {
    for (const char* text : {"10.1.0.0", "10.1.0.0/", "10.1.0.0/33", "10.1.0.0/-1", "fd00::/129", "/24", "10.1.0.0/8x"})
        cr_assert(!parse_prefix(text).has_value(), "%s", text);
    const auto beyond = parse_prefix("10.213.1.250/24");
    cr_assert(!beyond.has_value() && beyond.error().context.find("10.213.1.0/24") != std::string::npos);
}
