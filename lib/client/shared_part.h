// A rank's view of the agent's memory.
#pragma once

#include "base/handle.h"
#include "base/result.h"

#include <cstdint>

namespace varde::client {

// Bytes [offset, offset + size_bytes) of a memfd, mapped; the pages that they lie in, where those are huge.
class shared_part {
public:
    shared_part() = default;
    // The file must be long enough: a page beyond its end would be a SIGBUS in training.
    static result<shared_part> map(int fd, uint64_t offset, uint64_t size_bytes);

    std::byte* data() const noexcept { return pages_.data() + front_bytes_; }
    size_t size_bytes() const noexcept { return size_bytes_; }
    // The memory stays mapped, and is nobody's.
    void release() noexcept { pages_.release(); }

private:
    mapping pages_;
    size_t front_bytes_ = 0;  // of the first page, before the part
    size_t size_bytes_ = 0;
};

}  // namespace varde::client
