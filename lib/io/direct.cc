// Asking and trying.
#include "io/direct.h"

#include "base/limits.h"

#include <cerrno>
#include <cstddef>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace varde::io {

namespace {

alignas(limits::page_bytes) constexpr std::byte zeros[limits::page_bytes]{};

// A page, at the file's begin, must be a multiple of what is asked for.
bool page_suffices(uint32_t alignment) noexcept { return alignment != 0 && limits::page_bytes % alignment == 0; }

}  // namespace

direct_answer direct_answer_of(const struct statx& about) noexcept {
    if ((about.stx_mask & STATX_DIOALIGN) == 0) return direct_answer::unknown;
    return page_suffices(about.stx_dio_mem_align) && page_suffices(about.stx_dio_offset_align) ? direct_answer::works
                                                                                               : direct_answer::refused;
}

// The trial can go when no kernel before 6.1 and no file system that keeps silent (NFS, for one) is in use.
direct_answer ask_direct(int fd) noexcept {
    struct statx about {};
    if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &about) != 0) return direct_answer::unknown;
    return direct_answer_of(about);
}

bool takes_direct_writes(int fd) noexcept {
    const direct_answer answer = ask_direct(fd);
    if (answer != direct_answer::unknown) return answer == direct_answer::works;
    ssize_t wrote = 0;
    do wrote = ::pwrite(fd, zeros, sizeof zeros, 0);
    while (wrote < 0 && errno == EINTR);
    return wrote >= 0 || (errno != EINVAL && errno != EOPNOTSUPP);
}

}  // namespace varde::io
