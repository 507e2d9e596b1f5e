// Whole texts from and to a file.  Blocking; any thread.
#pragma once

#include "base/result.h"

#include <string>
#include <string_view>

namespace varde::topo {

// The regular file from its start; `what` is the beginning of messages.  damaged: it is larger than `bytes_max`.
result<std::string> read_all(int file, size_t bytes_max, const std::string& what);

result<void> write_all(int file, std::string_view text);

}  // namespace varde::topo
