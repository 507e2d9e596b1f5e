// The engine that moves bytes between memory and files: many requests in flight, io_uring where the host lets us,
// pwrite/pread where not.
//
// Invariants: each accepted request ends in exactly one completion; a short transfer is carried on inside the engine,
// so a completion with os_errno 0 means every byte (a read may end early at the end of the file).  Nothing is allocated
// after open().  One owner: all calls come from one thread, which must live until everything it has submitted is
// complete (the kernel cancels the requests of a thread that ends).  Only open(), wait(), stop() and the destructor
// block, the last three each with a bound.
//
// Memory: from submit() to its completion the bytes of a request belong to the engine.  They, and the registered
// buffers, must stay mapped until the engine is gone.  See stop() for storage that never answers.
#pragma once

#include "base/clock.h"
#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace varde::io {

enum class operation : uint8_t { write, read };

struct request {
    operation what = operation::write;
    int fd = -1;
    std::byte* data = nullptr;
    size_t size_bytes = 0;  // at most request_bytes_max
    uint64_t offset = 0;    // in the file
    uint64_t cookie = 0;    // the caller's, comes back with the completion
};

struct completion {
    uint64_t cookie = 0;
    int os_errno =
        0;  // 0: all bytes; EINVAL on an O_DIRECT file: the file system refuses it, set the file to do without
    uint64_t bytes = 0;  // moved before the end or the error
};

constexpr size_t request_bytes_max = 1ULL << 30;  // the kernel moves at most 2 GiB - 4 KiB in one call
constexpr uint32_t depth_max = 4096;

struct engine_options {
    uint32_t depth = 64;                        // requests in flight, 1 to depth_max
    std::vector<std::span<std::byte>> buffers;  // to register (the arena): page-aligned, apart from each other
    bool use_ring = true;                       // false: pwrite/pread at once (tests, a site that forbids io_uring)
};

constexpr uint32_t held_files_max = 16;

class engine {
public:
    // Falls back by name (description()) where io_uring or the registration is refused; fails only for options that
    // make no sense.
    static result<engine> open(const engine_options& wanted);

    // "io_uring, 3 registered buffers", "pwrite (io_uring refused: ...)", or
    // "io_uring, buffers not registered: needs 64 GiB locked, limit is 8 MiB (raise memlock)",
    // "io_uring, files not registered: ...".
    const std::string& description() const noexcept;
    bool fell_back() const noexcept;  // something that was wanted was refused: worth one line in the log

    // Registers an open file whose transfers are many, so that the kernel need not look it up for each.  Only a hint:
    // where it is refused, or held_files_max are held, transfers go by the descriptor.  Whoever has held a file drops
    // it before the descriptor is closed: until then it stays open in the kernel, and the next file of that number
    // would be taken for it.  Transfers in flight end as they would have.  See held_file.
    void hold_file(int fd) noexcept;
    void drop_file(int fd) noexcept;

    // Hands one request over; it starts now, or in the next wait() where there is no ring.  busy: `depth` are in
    // flight, wait() first.  invalid: size or pointer make no sense.  Errors of the transfer itself come with the
    // completion.
    result<void> submit(const request& wanted);
    bool full() const noexcept;
    bool is_broken() const noexcept;  // for good: after stop() open another
    uint32_t in_flight() const noexcept;

    // Completions, in the order in which they ended: returns as soon as there are `least` of them (or nothing more is
    // in flight), or the deadline has passed, with what is there, maybe nothing.  The span is valid until the next
    // call.  Without a ring at least one request is carried out, whatever the deadline, and the deadline is looked at
    // between requests.  An error means that the engine itself is broken: it takes nothing more, and stop() is what is
    // left to call.
    result<std::span<const completion>> wait(uint32_t least, deadline until);

    // Waits for everything in flight and throws its completions away; call it before the memory of abandoned requests
    // is used again.  timeout: the storage has not answered.  Then the requests cannot be taken back (the kernel does
    // not interrupt a transfer that a device or a mount has taken over): leave their memory alone until a later stop()
    // succeeds or the process ends.  Any other error: the engine is broken for good, but nothing is in flight any more
    // and the memory is the caller's again; open another engine.
    result<void> stop(deadline until);

    // Waits at most destroy_wait_ms for what is in flight, then lets the kernel finish alone.
    ~engine();
    engine(engine&&) noexcept;
    engine& operator=(engine&&) noexcept;

private:
    struct state;
    explicit engine(std::unique_ptr<state> made) noexcept;
    std::unique_ptr<state> state_;
};

constexpr uint64_t destroy_wait_ms = 2000;

// Holds a file as long as it lives.  Same thread rule as the engine, which outlives it.
class held_file {
public:
    held_file() = default;
    held_file(engine& with, int fd) noexcept : with_(&with), fd_(fd) { with.hold_file(fd); }
    held_file(held_file&& other) noexcept : with_(std::exchange(other.with_, nullptr)), fd_(other.fd_) {}
    held_file& operator=(held_file&& other) noexcept {
        std::swap(with_, other.with_);
        std::swap(fd_, other.fd_);
        return *this;
    }
    held_file(const held_file&) = delete;
    held_file& operator=(const held_file&) = delete;
    ~held_file() {
        if (with_ != nullptr) with_->drop_file(fd_);
    }

private:
    engine* with_ = nullptr;
    int fd_ = -1;
};

}  // namespace varde::io
