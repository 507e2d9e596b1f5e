// Reads a small file that only root, or the reader itself, can have written.  Any thread; never blocks on a pipe or
// device.
#pragma once

#include "base/result.h"

#include <string>

namespace varde {

// Whole content of `name` below the open directory (AT_FDCWD and an absolute path will do).  No link is followed at
// the last name; the file must be a regular one, owned by root or by the reader, not writable by group or others, and
// at most `bytes_max` bytes long.  not_found: there is no such file.  invalid: one of these rules is broken.  `shown`
// is the path for messages.
result<std::string> read_trusted_file(int directory, const std::string& name, const std::string& shown,
                                      size_t bytes_max);

}  // namespace varde
