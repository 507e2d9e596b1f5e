// UTF-8 as the standard's table 3-7 has it, and the two escaped forms of a text.
#include "pack/text.h"

#include <charconv>
#include <cstdint>

namespace varde::pack {

namespace {

// Bytes of the character that starts at `at`; 0 where none does.
size_t character_bytes(std::string_view text, size_t at) noexcept {
    const auto byte = [&](size_t index) -> unsigned {
        return index < text.size() ? static_cast<unsigned char>(text[index]) : 0U;
    };
    const unsigned first = byte(at);
    if (first < 0x80) return 1;
    // The second byte's bounds are what excludes overlong forms (E0, F0), surrogates (ED) and numbers too great (F4).
    unsigned low = 0x80;
    unsigned high = 0xBF;
    size_t size = 0;
    if (first >= 0xC2 && first <= 0xDF) size = 2;
    if (first >= 0xE0 && first <= 0xEF) size = 3;
    if (first >= 0xF0 && first <= 0xF4) size = 4;
    if (size == 0) return 0;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
    if (byte(at + 1) < low || byte(at + 1) > high) return 0;
    for (size_t index = at + 2; index < at + size; index++) {
        if (byte(index) < 0x80 || byte(index) > 0xBF) return 0;
    }
    return size;
}

void append_hex(std::string& target, const char* prefix, unsigned char byte) {
    constexpr char digits[] = "0123456789abcdef";
    target += prefix;
    target += digits[byte >> 4];
    target += digits[byte & 15];
}

}  // namespace

bool valid_utf8(std::string_view text) noexcept {
    for (size_t at = 0; at < text.size();) {
        const size_t size = character_bytes(text, at);
        if (size == 0) return false;
        at += size;
    }
    return true;
}

std::string escaped(std::string_view text, size_t most) {
    std::string target;
    for (size_t at = 0; at < text.size();) {
        const size_t size = character_bytes(text, at);
        if (at + size > most) {
            target += "...";
            break;
        }
        const auto first = static_cast<unsigned char>(text[at]);
        // C1 controls (C2 80 to C2 9F) drive terminals, too.
        const bool control =
            first < 0x20 || first == 0x7F || (size == 2 && first == 0xC2 && (text[at + 1] & 0xE0) == 0x80);
        if (size == 0 || control) {
            for (size_t index = at; index < at + (size == 0 ? 1 : size); index++)
                append_hex(target, "\\x", static_cast<unsigned char>(text[index]));
        } else {
            target += text.substr(at, size);
        }
        at += size == 0 ? 1 : size;
    }
    return target;
}

std::string in_quotes(std::string_view text, size_t most) { return "'" + escaped(text, most) + "'"; }

void append_json_string(std::string& target, std::string_view text) {
    target += '"';
    size_t plain = 0;  // where the run of letters that stand for themselves began
    for (size_t at = 0; at < text.size(); at++) {
        const auto byte = static_cast<unsigned char>(text[at]);
        if (byte >= 0x20 && byte != '"' && byte != '\\') continue;
        target.append(text, plain, at - plain);
        plain = at + 1;
        if (byte < 0x20) append_hex(target, "\\u00", byte);
        else (target += '\\') += text[at];
    }
    target.append(text, plain);
    target += '"';
}

void append_number(std::string& target, unsigned long long value) {
    char digits[20];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    target.append(digits, end);
}

}  // namespace varde::pack
