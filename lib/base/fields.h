// Text of the system cut at a character: lines of /proc, words of scontrol.  Pure; any thread.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

namespace varde {

// What stands before the next `at`, or all where there is none; that and `at` are gone from `text` then.
constexpr std::string_view take_until(std::string_view& text, char at) noexcept {
    const size_t length = std::min(text.find(at), text.size());
    const std::string_view part = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    return part;
}

// The parts between one or more of `at`, none of them empty.
inline std::vector<std::string_view> split(std::string_view text, char at) {
    std::vector<std::string_view> parts;
    while (!text.empty()) {
        const std::string_view part = take_until(text, at);
        if (!part.empty()) parts.push_back(part);
    }
    return parts;
}

}  // namespace varde
