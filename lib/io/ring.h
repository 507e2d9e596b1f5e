// io_uring, as much of it as the engine needs: a submission queue, a completion queue, registered
// buffers and files.
// Same thread rule as the engine.  The destructor closes the ring and does not wait: see engine::stop().
#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "io/transfer.h"

#include <cstddef>
#include <cstdint>
#include <liburing.h>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace varde::io {

struct answer {
    uint32_t slot = 0;
    int64_t bytes_or_errno = 0;
};

class ring {
public:
    // The failure's context is the reason alone: "io_uring_setup: Operation not permitted (seccomp or
    // kernel.io_uring_disabled)".
    static result<std::unique_ptr<ring>> open(uint32_t depth);
    ~ring();
    ring(const ring&) = delete;
    ring& operator=(const ring&) = delete;

    // All or none of them.  The failure's context is the reason, with what is needed and what is allowed.
    result<void> register_buffers(const std::vector<std::span<std::byte>>& buffers);
    size_t registered_count() const noexcept { return registered_.size(); }

    // Room for `count` files.  The failure's context is the reason.
    result<void> register_files(uint32_t count);
    // 0 or an errno; ENOSPC where there is no room.
    int hold_file(int fd) noexcept;
    void drop_file(int fd) noexcept;

    // Queues the rest of a request; there is room for `depth` of them.
    void push(const pending& request, uint32_t slot) noexcept;
    // Asks the kernel to give up what it has not begun.
    void cancel_all() noexcept;
    // Hands over what was pushed.  0, or an errno that means that the ring is broken.
    int flush() noexcept;
    // flush(), then sleeps until `count` answers are there or the deadline has passed.  0, ETIME or as flush().
    int flush_and_wait(uint32_t count, deadline until) noexcept;
    // The next answer, if one is there.
    bool pop(answer& to) noexcept;
    // Requests that were pushed and that the kernel has not taken: their memory is still ours.
    uint32_t unsubmitted() const noexcept;

private:
    ring() = default;
    int registered_index(const std::byte* data, size_t size_bytes) const noexcept;

    int file_index(int fd) const noexcept;  // -1: it is not registered

    io_uring ring_{};
    bool opened_ = false;
    std::vector<std::span<std::byte>> registered_;  // by address
    std::vector<int> files_;                        // the kernel's table; -1: free
};

}  // namespace varde::io
