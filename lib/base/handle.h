// Owners of kernel objects: move-only, the destructor lets go silently.
//
// Whatever can lose data when it fails (a write, a sync, a close after writing) has a named call elsewhere that
// returns a result; these destructors are the "abandon" of everything else.
#pragma once

#include <cstddef>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace varde {

class unique_fd {
public:
    unique_fd() = default;
    explicit unique_fd(int fd) noexcept : fd_(fd) {}
    unique_fd(unique_fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    unique_fd& operator=(unique_fd&& other) noexcept {
        if (this != &other) reset(std::exchange(other.fd_, -1));
        return *this;
    }
    unique_fd(const unique_fd&) = delete;
    unique_fd& operator=(const unique_fd&) = delete;
    ~unique_fd() { reset(); }

    int get() const noexcept { return fd_; }
    explicit operator bool() const noexcept { return fd_ >= 0; }
    int release() noexcept { return std::exchange(fd_, -1); }
    void reset(int fd = -1) noexcept {
        if (fd_ >= 0) ::close(fd_);
        fd_ = fd;
    }

private:
    int fd_ = -1;
};

// A range of mapped memory.
class mapping {
public:
    mapping() = default;
    mapping(void* address, size_t size_bytes) noexcept : address_(address), size_bytes_(size_bytes) {}
    mapping(mapping&& other) noexcept
        : address_(std::exchange(other.address_, nullptr)), size_bytes_(std::exchange(other.size_bytes_, 0)) {}
    mapping& operator=(mapping&& other) noexcept {
        if (this != &other) {
            reset();
            address_ = std::exchange(other.address_, nullptr);
            size_bytes_ = std::exchange(other.size_bytes_, 0);
        }
        return *this;
    }
    mapping(const mapping&) = delete;
    mapping& operator=(const mapping&) = delete;
    ~mapping() { reset(); }

    std::byte* data() const noexcept { return static_cast<std::byte*>(address_); }
    size_t size_bytes() const noexcept { return size_bytes_; }
    explicit operator bool() const noexcept { return address_ != nullptr; }
    // The memory stays mapped, and is nobody's.
    void release() noexcept { address_ = nullptr; }
    void reset() noexcept {
        if (address_ != nullptr) ::munmap(address_, size_bytes_);
        address_ = nullptr;
        size_bytes_ = 0;
    }

private:
    void* address_ = nullptr;
    size_t size_bytes_ = 0;
};

}  // namespace varde
