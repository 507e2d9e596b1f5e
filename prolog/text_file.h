// Whole small files of the kernel (/proc, /sys), by plain system calls.  Any thread.
#pragma once

#include "base/result.h"

#include <string>

namespace varde::node {

// At most 4 MiB; the rest is left out.
result<std::string> read_text(const std::string& path);

result<void> write_text(const std::string& path, const std::string& text);

}  // namespace varde::node
