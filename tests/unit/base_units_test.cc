// Sizes and durations: every form that is documented, and many that are not.
#include "base/units.h"

#include <criterion/criterion.h>

using namespace varde;

static uint64_t seconds(const char* text) {
    auto parsed = parse_duration_s(text);
    cr_assert(parsed.has_value(), "'%s': %s", text, parsed.error().context.c_str());
    return *parsed;
}

static uint64_t bytes(const char* text) {
    auto parsed = parse_size_bytes(text);
    cr_assert(parsed.has_value(), "'%s': %s", text, parsed.error().context.c_str());
    return *parsed;
}

Test(duration, reads_slurms_forms) {
    cr_assert_eq(seconds("20"), 1200);
    cr_assert_eq(seconds("1"), 60);
    cr_assert_eq(seconds("0:45"), 45);
    cr_assert_eq(seconds("20:30"), 1230);
    cr_assert_eq(seconds("90:00"), 5400);
    cr_assert_eq(seconds("1:00:00"), 3600);
    cr_assert_eq(seconds("36:00:01"), 129601);
    cr_assert_eq(seconds("1-0"), 86400);
    cr_assert_eq(seconds("2-12"), 216000);
    cr_assert_eq(seconds("1-2:3"), 93780);
    cr_assert_eq(seconds("1-02:03:04"), 93784);
    cr_assert_eq(seconds("365-0"), 31536000);
}

Test(duration, reads_units) {
    cr_assert_eq(seconds("90s"), 90);
    cr_assert_eq(seconds("20m"), 1200);
    cr_assert_eq(seconds("1h30m"), 5400);
    cr_assert_eq(seconds("1H30M5S"), 5405);
    cr_assert_eq(seconds("2d"), 172800);
    cr_assert_eq(seconds("1d1s"), 86401);
}

Test(duration, refuses_what_it_cannot_be_sure_of) {
    const char* bad[] = {"",
                         " ",
                         "x",
                         "20x",
                         "20m5",
                         "m",
                         "1h1h",
                         "5m1h",
                         "-5",
                         "+5",
                         "1.5h",
                         "0",
                         "0s",
                         "0:00",
                         "1:60",
                         "1:2:3:4",
                         "1:",
                         ":1",
                         "1-",
                         "-1",
                         "1-24",
                         "1-2-3",
                         "366-0",
                         "366d",
                         "0x10",
                         "20 m",
                         " 20",
                         "20\n",
                         "1:2:60",
                         "1-1:60",
                         "auto",
                         "infinite",
                         "10min",
                         "10msec",
                         "99999999999999999999",
                         "18446744073709551615",
                         "18446744073709551616s",
                         "18446744073709551615-0"};
    for (const char* text : bad) {
        auto parsed = parse_duration_s(text);
        cr_assert(!parsed.has_value(), "'%s' was read as %lu s", text, parsed.has_value() ? *parsed : 0);
        cr_assert_eq(static_cast<int>(parsed.error().what), static_cast<int>(code::invalid));
        cr_assert(!parsed.error().context.empty());
    }
}

Test(size, reads_units_of_1024) {
    cr_assert_eq(bytes("0"), 0);
    cr_assert_eq(bytes("4096"), 4096);
    cr_assert_eq(bytes("4096B"), 4096);
    cr_assert_eq(bytes("64K"), 65536);
    cr_assert_eq(bytes("64k"), 65536);
    cr_assert_eq(bytes("512M"), 512ULL << 20);
    cr_assert_eq(bytes("4G"), 4ULL << 30);
    cr_assert_eq(bytes("4GB"), 4ULL << 30);
    cr_assert_eq(bytes("4GiB"), 4ULL << 30);
    cr_assert_eq(bytes("4gib"), 4ULL << 30);
    cr_assert_eq(bytes("1.5T"), 3ULL << 39);
    cr_assert_eq(bytes("0.5K"), 512);
    cr_assert_eq(bytes("0.999999T"), 999999ULL * (1ULL << 40) / 1000000);
    cr_assert_eq(bytes("15E"), 15ULL << 60);
}

Test(size, refuses_nonsense) {
    const char* bad[] = {"",
                         " ",
                         "G",
                         "4Q",
                         "4 G",
                         "4Gi",
                         "4GiBB",
                         "4iB",
                         "-1",
                         "+1",
                         "1.",
                         ".5G",
                         "1.5",
                         "1.5B",
                         "1,5G",
                         "1e9",
                         "16E",
                         "17179869184G",
                         "18446744073709551616",
                         "1.0000001G",
                         "4G\n",
                         "4%",
                         "0x10"};
    for (const char* text : bad)
        cr_assert(!parse_size_bytes(text).has_value(), "'%s' was read as %lu", text, *parse_size_bytes(text));
}

Test(number, reads_digits_only) {
    cr_assert_eq(*parse_number("0"), 0);
    cr_assert_eq(*parse_number("007"), 7);
    cr_assert_eq(*parse_number("18446744073709551615"), UINT64_MAX);
    cr_assert_eq(*parse_number("10", 10), 10);
    for (const char* text : {"", "-1", "+1", " 1", "1 ", "1a", "a", "0x1", "18446744073709551616"})
        cr_assert(!parse_number(text).has_value(), "'%s'", text);
    cr_assert(!parse_number("11", 10).has_value());
}

Test(format, writes_what_people_read) {
    cr_assert(hexadecimal(0) == "0000000000000000" && hexadecimal(0xfedcba9876543210) == "fedcba9876543210");
    cr_assert(format_bytes(0) == "0 B");
    cr_assert(format_bytes(1023) == "1023 B");
    cr_assert(format_bytes(1024) == "1 KiB");
    cr_assert(format_bytes(3ULL << 29) == "1.5 GiB");
    cr_assert(format_bytes((5ULL << 30) - 1) == "4.9 GiB");
    cr_assert(format_bytes(UINT64_MAX) == "15.9 EiB");
    cr_assert(format_duration(0) == "0s");
    cr_assert(format_duration(45) == "45s");
    cr_assert(format_duration(5400) == "1h30m");
    cr_assert(format_duration(90061) == "1d1h1m1s");
}

Test(format, round_trips_durations) {
    for (uint64_t s = 1; s < 200000; s += 977) cr_assert_eq(seconds(format_duration(s).c_str()), s);
}

Test(printable, makes_one_safe_line) {
    cr_assert(printable("a\nb\x1b[31mc\xff") == "a?b?[31mc?");
    cr_assert(printable("abcdef", 3) == "abc...");
    cr_assert(printable("abc", 3) == "abc");
}
