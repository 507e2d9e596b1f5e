// Tokens of a pack's header.
#include "pack/json_scanner.h"

#include "pack/text.h"

#include <charconv>

namespace varde::pack {

bool json_scanner::take(char letter) noexcept {
    if (done() || text_[at_] != letter) return false;
    at_++;
    return true;
}

// `at` is behind a backslash; it moves behind the escape.
bool json_scanner::escape(size_t& at, std::string& target) const {
    if (at == text_.size()) return false;
    const char kind = text_[at++];
    if (kind == '"' || kind == '\\') {
        target += kind;
        return true;
    }
    const std::string_view digits = text_.substr(at, 4);
    if (kind != 'u' || digits.size() != 4) return false;
    unsigned value = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + 4, value, 16);
    if (read.ec != std::errc{} || read.ptr != digits.data() + 4 || value >= 0x20) return false;
    target += static_cast<char>(value);
    at += 4;
    return true;
}

bool json_scanner::string(std::string& ret_value) {
    if (done() || text_[at_] != '"') return false;
    ret_value.clear();
    for (size_t at = at_ + 1;;) {
        size_t end = at;
        while (end < text_.size() && text_[end] != '"' && text_[end] != '\\' &&
               static_cast<unsigned char>(text_[end]) >= 0x20)
            end++;
        ret_value.append(text_, at, end - at);
        if (end == text_.size() || static_cast<unsigned char>(text_[end]) < 0x20) return false;
        at = end + 1;
        if (text_[end] == '\\') {
            if (!escape(at, ret_value)) return false;
            continue;
        }
        if (!valid_utf8(ret_value)) return false;
        at_ = at;
        return true;
    }
}

bool json_scanner::number(uint64_t& ret_value) noexcept {
    const std::string_view rest = text_.substr(at_);
    // from_chars() takes digits only for an unsigned number, so no sign, point or exponent gets through: what
    // follows is no token.
    const auto read = std::from_chars(rest.data(), rest.data() + rest.size(), ret_value);
    const auto size = static_cast<size_t>(read.ptr - rest.data());
    if (read.ec != std::errc{} || (size > 1 && rest.front() == '0')) return false;
    at_ += size;
    return true;
}

}  // namespace varde::pack
