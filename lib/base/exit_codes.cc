// Reading and writing sets of exit codes.
#include "base/exit_codes.h"

#include "base/fields.h"
#include "base/units.h"

namespace varde {

namespace {

constexpr uint64_t code_max = 255;

result<uint64_t> parse_code(std::string_view text) {
    auto number = parse_number(text, code_max);
    if (number && *number == 0) return fail(code::invalid, "exit code 0 is success");
    return number;
}

}  // namespace

result<exit_codes> parse_exit_codes(std::string_view text) {
    exit_codes codes;
    if (text == "none") return codes;
    if (text.empty() || text.ends_with(',')) return fail(code::invalid, "an exit code is missing");
    while (!text.empty()) {
        std::string_view last = take_until(text, ',');
        const size_t dash = last.find('-');
        const auto first = parse_code(last.substr(0, dash));
        if (!first) return first.error();
        if (dash != std::string_view::npos) last.remove_prefix(dash + 1);
        const auto end = parse_code(last);
        if (!end) return end.error();
        if (*end < *first) return fail(code::invalid, "the range ends before it begins");
        for (uint64_t one = *first; one <= *end; one++) codes.set(one);
    }
    return codes;
}

std::string format_exit_codes(const exit_codes& codes) {
    std::string text;
    for (size_t one = 1; one <= code_max; one++) {
        if (!codes.test(one)) continue;
        size_t end = one;
        while (end < code_max && codes.test(end + 1)) end++;
        if (!text.empty()) text += ',';
        text += std::to_string(one);
        if (end > one) text += "-" + std::to_string(end);
        one = end;
    }
    return text.empty() ? "none" : text;
}

}  // namespace varde
