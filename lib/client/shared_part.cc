// mmap(2) wants whole pages of the file, and those of hugetlbfs are large.
#include "client/shared_part.h"

#include "base/limits.h"

#include <algorithm>
#include <cerrno>
#include <sys/mman.h>
#include <sys/stat.h>

namespace varde::client {

result<shared_part> shared_part::map(int fd, uint64_t offset, uint64_t size_bytes) {
    struct stat found {};
    if (::fstat(fd, &found) != 0) return os_error(errno, "couldn't look at the agent's memory");
    const auto end = static_cast<uint64_t>(found.st_size);
    if (offset > end || size_bytes > end - offset)
        return fail(code::invalid,
                    "the agent's memory is smaller than it says; libvarde and varde-agent must be of one release");
    // hugetlbfs tells its page size as st_blksize; a larger one than needed does no harm.
    const uint64_t page_bytes = std::max(static_cast<uint64_t>(found.st_blksize), limits::page_bytes);
    shared_part made;
    made.front_bytes_ = offset % page_bytes;
    made.size_bytes_ = size_bytes;
    const uint64_t wanted_bytes = made.front_bytes_ + size_bytes;
    const uint64_t whole_bytes = (wanted_bytes + page_bytes - 1) / page_bytes * page_bytes;
    void* address = ::mmap(nullptr, whole_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                           static_cast<off_t>(offset - made.front_bytes_));
    if (address == MAP_FAILED)
        return os_error(errno, "couldn't map " + std::to_string(size_bytes) + " bytes of the agent's memory");
    made.pages_ = mapping(address, whole_bytes);
    // Children of fork, such as data loaders, must not write there, and need no page tables for it.
    discard(::madvise(address, whole_bytes, MADV_DONTFORK), "only a saving");
    return made;
}

}  // namespace varde::client
