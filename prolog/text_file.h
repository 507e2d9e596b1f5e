// Whole small files of the kernel (/proc, /sys), by plain system calls.  Any thread.
#pragma once

#include "base/result.h"

#include <string>

namespace varde::node {

// invalid: it is longer than 4 MiB.
result<std::string> read_text(const std::string& path);

// In one write, because the kernel takes a setting as one; what it takes only in part is a failure.
result<void> write_text(const std::string& path, const std::string& text);

}  // namespace varde::node
