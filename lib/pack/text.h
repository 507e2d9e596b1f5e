// Names from users and files, made safe to check and to print.  Pure functions, any thread.
#pragma once

#include <string>
#include <string_view>

namespace varde::pack {

// Strict UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
bool valid_utf8(std::string_view text) noexcept;

// The text in one line: control bytes become \xNN, so that a name in a file cannot drive the reader's terminal;
// what is beyond `most` bytes is cut at a character, and "..." says so.
std::string escaped(std::string_view text, size_t most = 200);

// The same in quotation marks, 'TEXT', for a message.
std::string in_quotes(std::string_view text, size_t most = 200);

// JSON's form of a string, with its quotation marks, appended to `target`.  `text` is valid UTF-8.
void append_json_string(std::string& target, std::string_view text);

void append_number(std::string& target, unsigned long long value);

}  // namespace varde::pack
