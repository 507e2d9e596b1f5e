// openat() without links, and rename().
#include "prolog/own_directory.h"

#include "base/clock.h"

#include <cerrno>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace varde::node {

// Opens a directory that nobody but us can have filled.
result<unique_fd> open_own_directory(int parent, const std::string& name, const std::string& shown) {
    unique_fd directory(::openat(parent, name.c_str(), own_directory_flags));
    if (!directory) return os_error(errno, "couldn't open '" + shown + "'");
    struct stat about {};
    if (::fstat(directory.get(), &about) != 0) return os_error(errno, "couldn't stat '" + shown + "'");
    if (about.st_uid != ::geteuid() || (about.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return fail(code::invalid, "couldn't use '" + shown + "': others than root may write it; remove it");
    return directory;
}

result<unique_fd> make_own_directory(int parent, const std::string& name, const std::string& shown) {
    const bool made = ::mkdirat(parent, name.c_str(), 0755) == 0;
    if (!made && errno != EEXIST) return os_error(errno, "couldn't make '" + shown + "'");
    auto directory = open_own_directory(parent, name, shown);
    // slurmd's umask may be anything.
    if (made && directory && ::fchmod(directory->get(), 0755) != 0)
        return os_error(errno, "couldn't chmod '" + shown + "'");
    return directory;
}

result<void> write_own_file(int directory, const std::string& name, const std::string& text, const std::string& shown) {
    const std::string fresh = name + ".new";
    ::unlinkat(directory, fresh.c_str(), 0);
    const unique_fd file(
        ::openat(directory, fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file) return os_error(errno, "couldn't write '" + shown + "'");
    // One write into a file system in memory: short only when it is full.
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written < 0) return os_error(errno, "couldn't write '" + shown + "'");
    if (static_cast<size_t>(written) != text.size()) return os_error(ENOSPC, "couldn't write '" + shown + "'");
    if (::fchmod(file.get(), 0644) != 0) return os_error(errno, "couldn't chmod '" + shown + "'");
    if (::renameat(directory, fresh.c_str(), directory, name.c_str()) != 0)
        return os_error(errno, "couldn't rename '" + shown + ".new'");
    return {};
}

result<unique_fd> lock_own_file(int directory, const std::string& name, int timeout_ms, const std::string& shown) {
    unique_fd lock(::openat(directory, name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!lock) return os_error(errno, "couldn't open '" + shown + "'");
    const auto until = deadline::in_ms(static_cast<uint64_t>(timeout_ms));
    while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) return os_error(errno, "couldn't lock '" + shown + "'");
        if (until.passed())
            return fail(code::timeout, "couldn't lock '" + shown + "': another prolog or epilog has held it for " +
                                           std::to_string(timeout_ms) + " ms");
        ::usleep(2'000);
    }
    return lock;
}

}  // namespace varde::node
