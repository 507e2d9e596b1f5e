// Texts of paths.  Pure; any thread.
#pragma once

#include <string_view>

namespace varde {

// "/flash1", "/flash/a": absolute, in the one way that it can be written without links: no empty part, no "." or "..",
// no slash at the end.  Not "/".
bool is_plain_path(std::string_view path) noexcept;

}  // namespace varde
