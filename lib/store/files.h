// The steps on files and directories that all parts of the store share: names relative to an open directory, EINTR and
// short transfers handled, every error with its path.  Blocking I/O, no state; any thread.
#pragma once

#include "base/handle.h"
#include "base/result.h"

#include <cstdint>
#include <fcntl.h>
#include <span>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <vector>

namespace varde::store::files {

// open(), again after a signal.  -1 and errno as usual.
int open_at(int directory, const char* name, int flags, mode_t mode = 0) noexcept;

// O_DIRECT where the file system takes it; where it answers EINVAL, opens without, and `ret_direct` says so.
int open_direct_at(int directory, const char* name, int flags, mode_t mode, bool* ret_direct) noexcept;

// Takes O_DIRECT off an open file, for file systems that take the flag and refuse the transfer.
bool clear_direct(int fd) noexcept;

// A subdirectory, never through a link.  not_found, io (also for a file or a link of that name), ...
result<unique_fd> open_directory(int parent, const std::string& name, const std::string& path);

// All entries but "." and "..".  A directory that cannot be read to its end is an error, never a shorter list.
result<std::vector<std::string>> read_names(int directory, const std::string& path);

result<void> write_all(int fd, std::span<const std::byte> bytes, const std::string& path);

// All of [offset, offset + size_bytes), page-aligned for a file with O_DIRECT.  Where a read is refused with EINVAL all
// the same, O_DIRECT goes off the file and the page cache serves it.  damaged: the file ends before.
result<void> read_exactly(int fd, std::byte* to, uint64_t size_bytes, uint64_t offset, const std::string& path);
result<std::string> read_text(int directory, const std::string& name, uint64_t bytes_max, const std::string& path);
result<void> sync(int fd, const std::string& path);

// Renames within a directory and fails with EEXIST where `target` exists.  Returns 0 or the errno.
int rename_new(int directory, const char* source, const char* target) noexcept;

// A name that no other writer uses: "PREFIX<16 random hex digits>".
std::string unique_name(std::string_view prefix);

// Makes `name` with this content, all or nothing: temporary name, fsync, rename, fsync of the directory.
// `replace` false: EEXIST where it exists already.  The temporary names begin with temporary_prefix.
result<void> write_whole(int directory, const std::string& name, std::string_view text, bool replace,
                         const std::string& path);
constexpr std::string_view temporary_prefix = ".new-";

bool same_file(const struct stat& a, const struct stat& b) noexcept;

inline std::span<const std::byte> bytes_of(std::string_view text) noexcept {
    return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace varde::store::files
