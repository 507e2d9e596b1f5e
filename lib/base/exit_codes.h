// A set of exit codes, as people write it: "2,64-78".  Pure.
#pragma once

#include "base/result.h"

#include <bitset>
#include <string>
#include <string_view>

namespace varde {

using exit_codes = std::bitset<256>;

// Codes from 1 to 255 and ranges of them, with commas between; "none" is the empty set.
result<exit_codes> parse_exit_codes(std::string_view text);
std::string format_exit_codes(const exit_codes& codes);  // as the parser takes it

}  // namespace varde
