// Directories and files below /run/varde, which are root's alone.  No link is followed, and a directory that others may
// write is refused.
#pragma once

#include "base/handle.h"
#include "base/result.h"

#include <fcntl.h>
#include <string>

namespace varde::node {

constexpr int own_directory_flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// Opens a directory that nobody but us can have filled.  `shown` is the path for messages.
result<unique_fd> open_own_directory(int parent, const std::string& name, const std::string& shown);

// The same; it is made where it is missing (0755).
result<unique_fd> make_own_directory(int parent, const std::string& name, const std::string& shown);

// Writes a file whole or not at all (another name, then rename), 0644.
result<void> write_own_file(int directory, const std::string& name, const std::string& text, const std::string& shown);

// Waits until the lock is ours, and holds it until the descriptor is closed.  It is a file that only root can open:
// whoever can open what is locked, a directory too, could hold up every job.  timeout: another prolog or epilog has it.
result<unique_fd> lock_own_file(int directory, const std::string& name, int timeout_ms, const std::string& shown);

}  // namespace varde::node
