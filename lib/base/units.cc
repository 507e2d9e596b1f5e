// Parsers and formatters of quantities.  Everything here may come from a user or a hostile file: each sum is checked.
#include "base/units.h"

#include "base/checked.h"

#include <array>
#include <optional>
#include <vector>

namespace varde {

namespace {

constexpr uint64_t minute_s = 60;
constexpr uint64_t hour_s = 60 * minute_s;
constexpr uint64_t day_s = 24 * hour_s;
constexpr uint64_t duration_s_max = 365 * day_s;

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Takes the digits at the front of `text`.
result<uint64_t> take_digits(std::string_view& text) {
    uint64_t value = 0;
    size_t count = 0;
    for (; count < text.size() && is_digit(text[count]); count++) {
        const auto tens = checked_multiply(value, 10);
        const auto sum = tens ? checked_add(*tens, static_cast<uint64_t>(text[count] - '0')) : tens;
        if (!sum) return fail(code::invalid, "the number is too large");
        value = *sum;
    }
    if (count == 0) {
        if (text.empty()) return fail(code::invalid, "a number is missing at the end");
        return fail(code::invalid, "'" + printable(text, 20) + "' should start with a digit");
    }
    text.remove_prefix(count);
    return value;
}

result<uint64_t> checked_duration(std::optional<uint64_t> seconds) {
    if (!seconds || *seconds > duration_s_max) return fail(code::invalid, "it is longer than 365 days");
    if (*seconds == 0) return fail(code::invalid, "it is shorter than 1 second");
    return *seconds;
}

std::optional<uint64_t> add_product(std::optional<uint64_t> sum, uint64_t count, uint64_t unit) {
    const auto product = checked_multiply(count, unit);
    return sum && product ? checked_add(*sum, *product) : std::nullopt;
}

struct time_unit {
    char letter;
    uint64_t seconds;
};
constexpr std::array<time_unit, 4> time_units{{{'d', day_s}, {'h', hour_s}, {'m', minute_s}, {'s', 1}}};

// 1h30m: every number with a unit, from large to small, so that a slip ("30m1h", "1m1m") is refused, not guessed.
result<uint64_t> parse_unit_duration(std::string_view text) {
    std::optional<uint64_t> total = 0;
    size_t next_unit = 0;
    while (!text.empty()) {
        auto count = take_digits(text);
        if (!count) return std::move(count).error();
        if (text.empty()) return fail(code::invalid, "the last number has no unit (d, h, m or s)");
        const char letter = lower(text.front());
        size_t unit = 0;
        while (unit < time_units.size() && time_units[unit].letter != letter) unit++;
        if (unit == time_units.size())
            return fail(code::invalid, "'" + printable(text, 20) + "' is not a unit of time (d, h, m or s)");
        if (unit < next_unit) return fail(code::invalid, "its units are not in the order d, h, m, s, each once");
        next_unit = unit + 1;
        total = add_product(total, *count, time_units[unit].seconds);
        text.remove_prefix(1);
    }
    return checked_duration(total);
}

// The fields of "H:M:S" or "M:S"; at most three.
result<std::vector<uint64_t>> parse_fields(std::string_view text) {
    std::vector<uint64_t> fields;
    for (;;) {
        auto field = take_digits(text);
        if (!field) return std::move(field).error();
        if (!fields.empty() && *field >= 60) return fail(code::invalid, "minutes and seconds after a ':' are 0 to 59");
        fields.push_back(*field);
        if (text.empty()) return fields;
        if (text.front() != ':')
            return fail(code::invalid, "'" + printable(text, 20) + "' should be ':' and two digits");
        if (fields.size() == 3) return fail(code::invalid, "it has more than three fields");
        text.remove_prefix(1);
    }
}

// Slurm's forms: MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS.  What the first field means depends on the dash.
result<uint64_t> parse_slurm_duration(std::string_view text) {
    std::optional<uint64_t> total = 0;
    const size_t dash = text.find('-');
    if (dash != std::string_view::npos) {
        auto days = parse_number(text.substr(0, dash));
        if (!days) return std::move(days).error();
        total = add_product(total, *days, day_s);
        text.remove_prefix(dash + 1);
    }
    auto fields = parse_fields(text);
    if (!fields) return std::move(fields).error();
    const bool days_given = dash != std::string_view::npos;
    if (days_given && fields->front() >= 24) return fail(code::invalid, "hours after days are 0 to 23");
    uint64_t unit = days_given || fields->size() == 3 ? hour_s : minute_s;
    for (const uint64_t field : *fields) {
        total = add_product(total, field, unit);
        unit /= 60;
    }
    return checked_duration(total);
}

// The power of 1024 of "", "B", "K", "KB", "KiB", ...
std::optional<unsigned> size_exponent(std::string_view unit) {
    if (unit.empty()) return 0;
    constexpr std::string_view letters = "bkmgtpe";
    const size_t exponent = letters.find(lower(unit.front()));
    if (exponent == std::string_view::npos) return std::nullopt;
    unit.remove_prefix(1);
    if (exponent != 0 && !unit.empty() && lower(unit.front()) == 'i' && unit.size() == 2) unit.remove_prefix(1);
    if (exponent != 0 && unit.size() == 1 && lower(unit.front()) == 'b') unit.remove_prefix(1);
    if (!unit.empty()) return std::nullopt;
    return static_cast<unsigned>(exponent);
}

}  // namespace

result<uint64_t> parse_number(std::string_view text, uint64_t most) {
    if (text.empty()) return fail(code::invalid, "it is empty");
    std::string_view rest = text;
    auto value = take_digits(rest);
    if (!value) return value;
    if (!rest.empty()) return fail(code::invalid, "'" + printable(rest, 20) + "' is not a digit");
    if (*value > most) return fail(code::invalid, "it is larger than " + std::to_string(most));
    return value;
}

result<uint64_t> parse_duration_s(std::string_view text) {
    if (text.empty()) return fail(code::invalid, "it is empty");
    for (const char c : text)
        if (lower(c) >= 'a' && lower(c) <= 'z') return parse_unit_duration(text);
    return parse_slurm_duration(text);
}

result<uint64_t> parse_size_bytes(std::string_view text) {
    if (text.empty()) return fail(code::invalid, "it is empty");
    auto whole = take_digits(text);
    if (!whole) return whole;
    uint64_t fraction = 0;
    uint64_t scale = 1;
    if (!text.empty() && text.front() == '.') {
        text.remove_prefix(1);
        const size_t before = text.size();
        auto digits = take_digits(text);
        if (!digits) return digits;
        if (before - text.size() > 6) return fail(code::invalid, "it has more than 6 decimals");
        fraction = *digits;
        for (size_t i = text.size(); i < before; i++) scale *= 10;
    }
    const auto exponent = size_exponent(text);
    if (!exponent) return fail(code::invalid, "'" + printable(text, 20) + "' is not a unit (K, M, G, T, P)");
    if (*exponent == 0 && scale > 1) return fail(code::invalid, "there are no fractions of a byte");
    const unsigned shift = 10 * *exponent;
    // fraction < 10^6 < 2^20, so the product fits where the whole unit is at most 2^40; larger units are divided first.
    const uint64_t unit = 1ULL << shift;
    const uint64_t part = shift <= 40 ? fraction * unit / scale : unit / scale * fraction;
    const auto total = add_product(part, *whole, unit);
    if (!total) return fail(code::invalid, "the size is too large");
    return *total;
}

std::string format_bytes(uint64_t bytes) {
    static constexpr std::array<const char*, 7> names{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    unsigned exponent = 0;
    while (exponent + 1 < names.size() && bytes >> (10 * (exponent + 1)) != 0) exponent++;
    const uint64_t unit = 1ULL << (10 * exponent);
    uint64_t whole = bytes / unit;
    // Tenths, rounded down, so that "4.9 GiB" is never shown as the 5 GiB that it is not; rest < 2^60, no overflow.
    const uint64_t tenths = bytes % unit * 10 / unit;
    std::string text = std::to_string(whole);
    if (tenths != 0) text += "." + std::to_string(tenths);
    return text + " " + names[exponent];
}

std::string hexadecimal(uint64_t number) {
    std::string text(16, '0');
    for (size_t index = text.size(); index-- > 0; number >>= 4) text[index] = "0123456789abcdef"[number & 15];
    return text;
}

std::string format_duration(uint64_t seconds) {
    if (seconds == 0) return "0s";
    std::string text;
    for (const time_unit& unit : time_units) {
        const uint64_t count = seconds / unit.seconds;
        if (count != 0) text += std::to_string(count) + unit.letter;
        seconds %= unit.seconds;
    }
    return text;
}

std::string printable(std::string_view text, size_t most) {
    std::string line;
    for (const char c : text.substr(0, most)) line += c >= ' ' && c <= '~' ? c : '?';
    if (text.size() > most) line += "...";
    return line;
}

}  // namespace varde
