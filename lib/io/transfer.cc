// When a transfer has ended, and the plain calls: see transfer.h.
#include "io/transfer.h"

#include "base/limits.h"

#include <cerrno>
#include <unistd.h>

namespace varde::io {

progress advance(pending& request, int64_t answer, int* ret_errno) noexcept {
    constexpr uint32_t retries_max = 16;  // a kernel that answers EAGAIN for ever must not keep us for ever
    constexpr uint64_t smallest_sector = 512;
    *ret_errno = 0;
    const bool reads = request.wanted.what == operation::read;
    if (answer == -EINTR || answer == -EAGAIN) {
        if (request.retries++ < retries_max) return progress::again;
        *ret_errno = static_cast<int>(-answer);
        return progress::ended;
    }
    if (answer < 0) {
        // With O_DIRECT the last part of a file whose length is no multiple of a sector has been read; the rest of the
        // request begins at an odd offset and is refused, which only says that the file ends here.
        const uint64_t next = request.wanted.offset + request.bytes_done;
        const bool end_of_file = reads && answer == -EINVAL && request.bytes_done > 0 && next % smallest_sector != 0;
        *ret_errno = end_of_file ? 0 : static_cast<int>(-answer);
        return progress::ended;
    }
    if (answer == 0) {
        if (!reads && request.bytes_done < request.wanted.size_bytes)
            *ret_errno = EIO;  // no progress and no reason: would repeat for ever
        return progress::ended;
    }
    request.retries = 0;
    request.bytes_done += static_cast<uint64_t>(answer);
    return request.bytes_done < request.wanted.size_bytes ? progress::again : progress::ended;
}

completion transfer(const request& wanted) noexcept {
    pending request{wanted};
    int os_errno = 0;
    int64_t answer = 0;
    do {
        std::byte* data = wanted.data + request.bytes_done;
        const size_t size_bytes = wanted.size_bytes - request.bytes_done;
        const off_t offset = static_cast<off_t>(wanted.offset + request.bytes_done);
        answer = wanted.what == operation::write ? ::pwrite(wanted.fd, data, size_bytes, offset)
                                                 : ::pread(wanted.fd, data, size_bytes, offset);
        if (answer < 0) answer = -errno;
    } while (advance(request, answer, &os_errno) == progress::again);
    return {wanted.cookie, os_errno, request.bytes_done};
}

}  // namespace varde::io
