// io_uring: see ring.h.
#include "io/ring.h"

#include "base/limits.h"
#include "base/units.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <sys/resource.h>

namespace varde::io {

namespace {

constexpr uint64_t cancel_mark = UINT64_MAX;           // user data of a cancellation: no slot has it
constexpr uint64_t registered_bytes_max = 1ULL << 30;  // the kernel's limit for one registered buffer
constexpr int lost_file = -2;                          // no descriptor, and no free place of the table
constexpr size_t registered_count_max = 1U << 14;      // and for their number

std::string setup_hint(int os_errno) {
    switch (os_errno) {
    case EPERM:
    case EACCES: return " (a seccomp filter, or the sysctl kernel.io_uring_disabled)";
    case ENOSYS: return " (the kernel or a seccomp filter does not have it)";
    case ENOMEM: return " (raise memlock)";
    default: return "";
    }
}

bool may_lock(uint64_t needed) {
    rlimit limit{};
    // Root's limit is none, where it has CAP_IPC_LOCK; if it has not, the kernel says so.
    return ::geteuid() == 0 || ::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || needed <= limit.rlim_cur;
}

std::string memlock_text(uint64_t needed) {
    rlimit limit{};
    std::string text = "needs " + format_bytes(needed) + " locked, limit is ";
    if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return text + "unknown";
    return text + (limit.rlim_cur == RLIM_INFINITY ? "none, memory is short"
                                                   : format_bytes(limit.rlim_cur) + " (raise memlock)");
}

// Errors of io_uring_enter that pass: what was pushed stays queued and goes with the next call.
bool passing(int answer) noexcept { return answer == -EINTR || answer == -EAGAIN || answer == -EBUSY; }

}  // namespace

result<std::unique_ptr<ring>> ring::open(uint32_t depth) {
    std::unique_ptr<ring> made(new ring);
    io_uring_params params{};
    params.flags = IORING_SETUP_CLAMP;
    const int refused = ::io_uring_queue_init_params(depth, &made->ring_, &params);
    if (refused < 0) {
        failure why = os_error(-refused, "io_uring_setup");
        why.context += setup_hint(-refused);
        return why;
    }
    made->opened_ = true;
    // A wait with a time-out that is not a request of its own.  This check can go with the last kernel before 5.11.
    if ((params.features & IORING_FEAT_EXT_ARG) == 0)
        return fail(code::unavailable, "the kernel's io_uring has no timed wait, 5.11 brings it");
    if (params.sq_entries < depth)
        return fail(code::unavailable, "the kernel allows only " + std::to_string(params.sq_entries) + " requests");
    return made;
}

// In-flight requests keep the kernel's own hold on their pages; closing neither waits for them nor takes them back.
ring::~ring() {
    if (opened_) ::io_uring_queue_exit(&ring_);
}

result<void> ring::register_buffers(const std::vector<std::span<std::byte>>& buffers) {
    std::vector<std::span<std::byte>> parts;
    uint64_t needed = 0;
    for (std::span<std::byte> rest : buffers) {
        needed += rest.size();
        while (!rest.empty()) {
            const std::span<std::byte> part = rest.first(std::min<size_t>(rest.size(), registered_bytes_max));
            parts.push_back(part);
            rest = rest.subspan(part.size());
        }
    }
    if (parts.empty()) return {};
    if (parts.size() > registered_count_max)
        return fail(code::no_memory, "more than " + std::to_string(registered_count_max) + " GiB");
    std::sort(parts.begin(), parts.end(), [](auto a, auto b) { return std::less<>()(a.data(), b.data()); });
    std::vector<iovec> vectors;
    vectors.reserve(parts.size());
    for (const std::span<std::byte> part : parts) vectors.push_back({part.data(), part.size()});
    // The kernel would fault in all of it before it looks at the limit.
    if (!may_lock(needed)) return failure{code::no_memory, ENOMEM, memlock_text(needed)};
    const int refused = ::io_uring_register_buffers(&ring_, vectors.data(), static_cast<unsigned>(vectors.size()));
    if (refused == -ENOMEM || refused == -EPERM) return failure{code::no_memory, -refused, memlock_text(needed)};
    if (refused < 0) return os_error(-refused, "io_uring_register");
    registered_ = std::move(parts);
    return {};
}

// A table of -1: such a one can be filled since Linux 5.5.
result<void> ring::register_files(uint32_t count) {
    std::vector<int> none(count, -1);
    const int refused = ::io_uring_register_files(&ring_, none.data(), count);
    if (refused < 0) return os_error(-refused, "io_uring_register");
    files_ = std::move(none);
    return {};
}

int ring::file_index(int fd) const noexcept {
    const auto found = std::find(files_.begin(), files_.end(), fd);
    return found == files_.end() ? -1 : static_cast<int>(found - files_.begin());
}

int ring::hold_file(int fd) noexcept {
    if (file_index(fd) >= 0) return EEXIST;
    const int index = file_index(-1);
    if (index < 0) return ENOSPC;
    const int answer = ::io_uring_register_files_update(&ring_, static_cast<unsigned>(index), &fd, 1);
    if (answer < 0) return -answer;
    files_[static_cast<size_t>(index)] = fd;
    return 0;
}

void ring::drop_file(int fd) noexcept {
    const int index = file_index(fd);
    if (index < 0) return;
    int none = -1;
    // Where it fails the kernel keeps the file open until the ring ends; the place is not used again.
    const int answer = ::io_uring_register_files_update(&ring_, static_cast<unsigned>(index), &none, 1);
    files_[static_cast<size_t>(index)] = answer < 0 ? lost_file : none;
}

int ring::registered_index(const std::byte* data, size_t size_bytes) const noexcept {
    const auto after =
        std::upper_bound(registered_.begin(), registered_.end(), data,
                         [](const std::byte* at, std::span<std::byte> part) { return std::less<>()(at, part.data()); });
    if (after == registered_.begin()) return -1;
    const std::span<std::byte> part = *(after - 1);
    const size_t begin = static_cast<size_t>(data - part.data());
    // One that lies across two parts goes as an unregistered transfer: right, only a little slower.
    if (begin > part.size() || size_bytes > part.size() - begin) return -1;
    return static_cast<int>(after - 1 - registered_.begin());
}

void ring::push(const pending& request, uint32_t slot) noexcept {
    io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);  // never null: at most `depth` slots, and each is pushed once
    const struct request& wanted = request.wanted;
    std::byte* data = wanted.data + request.bytes_done;
    const unsigned size_bytes = static_cast<unsigned>(wanted.size_bytes - request.bytes_done);
    const uint64_t offset = wanted.offset + request.bytes_done;
    const int index = registered_index(data, size_bytes);
    if (index >= 0 && wanted.what == operation::write)
        ::io_uring_prep_write_fixed(entry, wanted.fd, data, size_bytes, offset, index);
    else if (index >= 0) ::io_uring_prep_read_fixed(entry, wanted.fd, data, size_bytes, offset, index);
    else if (wanted.what == operation::write) ::io_uring_prep_write(entry, wanted.fd, data, size_bytes, offset);
    else ::io_uring_prep_read(entry, wanted.fd, data, size_bytes, offset);
    if (const int file = file_index(wanted.fd); file >= 0) {
        entry->fd = file;
        entry->flags |= IOSQE_FIXED_FILE;
    }
    // EAGAIN: the kernel could not do it without blocking; this makes it block in a worker of its own.
    if (request.retries > 0) entry->flags |= IOSQE_ASYNC;
    ::io_uring_sqe_set_data64(entry, slot);
}

void ring::cancel_all() noexcept {
    io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
    if (entry == nullptr) return;  // full of requests that the kernel has not seen: flush() will hand them over first
    ::io_uring_prep_cancel64(entry, 0,
                             IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);  // before 5.19: EINVAL, and no harm
    ::io_uring_sqe_set_data64(entry, cancel_mark);
}

int ring::flush() noexcept {
    const int answer = ::io_uring_submit(&ring_);
    return answer >= 0 || passing(answer) ? 0 : -answer;
}

int ring::flush_and_wait(uint32_t count, deadline until) noexcept {
    const uint64_t now = mono_ns();
    const uint64_t left_ns = until.ns() > now ? until.ns() - now : 0;
    __kernel_timespec time{static_cast<int64_t>(left_ns / ns_per_s), static_cast<long long>(left_ns % ns_per_s)};
    io_uring_cqe* unused = nullptr;
    const int answer = ::io_uring_submit_and_wait_timeout(&ring_, &unused, count, &time, nullptr);
    if (answer >= 0 || passing(answer)) return 0;
    return -answer;
}

bool ring::pop(answer& to) noexcept {
    io_uring_cqe* entry = nullptr;
    while (::io_uring_peek_cqe(&ring_, &entry) == 0) {
        const uint64_t mark = ::io_uring_cqe_get_data64(entry);
        to.bytes_or_errno = entry->res;
        ::io_uring_cqe_seen(&ring_, entry);
        if (mark == cancel_mark) continue;
        to.slot = static_cast<uint32_t>(mark);
        return true;
    }
    return false;
}

uint32_t ring::unsubmitted() const noexcept {
    const unsigned end = ring_.sq.sqe_tail;
    uint32_t count = 0;
    for (unsigned at = end - ::io_uring_sq_ready(&ring_); at != end; ++at)
        count += ring_.sq.sqes[at & ring_.sq.ring_mask].user_data != cancel_mark;
    return count;
}

}  // namespace varde::io
