// openat without following links, fstat on what was opened (not on the name), a bounded read.
#include "config/trusted_file.h"

#include "base/handle.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>

namespace varde {

namespace {

failure refused(const std::string& shown, const char* reason) {
    return fail(code::invalid, "couldn't trust '" + shown + "': " + reason);
}

}  // namespace

result<std::string> read_trusted_file(int directory, const std::string& name, const std::string& shown,
                                      size_t bytes_max) {
    // O_NONBLOCK: a FIFO in the file's place must not hold us.
    const unique_fd file(::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (!file) {
        if (errno == ELOOP) return refused(shown, "it is a symbolic link; put the file itself there");
        return os_error(errno, "couldn't open '" + shown + "'");
    }
    struct stat about {};
    if (::fstat(file.get(), &about) != 0) return os_error(errno, "couldn't stat '" + shown + "'");
    if (!S_ISREG(about.st_mode)) return refused(shown, "it is not a regular file");
    if (about.st_uid != 0 && about.st_uid != ::geteuid())
        return refused(shown, ::geteuid() == 0 ? "root must own it; chown it to root" : "root or you must own it");
    if ((about.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return refused(shown, "others than its owner may write it; chmod go-w it");

    std::string text;
    char buffer[4096];
    for (;;) {
        const ssize_t got = ::read(file.get(), buffer, sizeof buffer);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return os_error(errno, "couldn't read '" + shown + "'");
        if (got == 0) return text;
        if (text.size() + static_cast<size_t>(got) > bytes_max) return refused(shown, "it is too long");
        text.append(buffer, static_cast<size_t>(got));
    }
}

}  // namespace varde
