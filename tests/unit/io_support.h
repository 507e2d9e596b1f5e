// What the engine's tests share: files and memory that go away, and a round trip through an engine.
#pragma once

#include "io/engine.h"
#include "base/handle.h"

#include <cerrno>
#include <criterion/criterion.h>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace io_test {

using namespace varde;
using namespace varde::io;

// A directory that goes away, on the disk where TMPDIR lies.
struct temporary_directory {
    std::string path;
    temporary_directory() {
        const char* parent = std::getenv("TMPDIR");
        path = std::string(parent != nullptr ? parent : "/tmp") + "/varde-test-XXXXXX";
        cr_assert_not_null(::mkdtemp(path.data()));
    }
    ~temporary_directory() {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }
};

inline mapping make_memory(size_t size_bytes, uint32_t seed) {
    void* at = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(at, MAP_FAILED);
    auto* words = static_cast<uint32_t*>(at);
    for (size_t i = 0; i < size_bytes / sizeof *words; ++i) words[i] = seed = seed * 1664525 + 1013904223;
    return mapping(at, size_bytes);
}

inline unique_fd open_file(const std::string& path, int flags) {
    unique_fd fd(::open(path.c_str(), flags | O_CLOEXEC, 0600));
    cr_assert(fd.get() >= 0, "%s: %s", path.c_str(), std::strerror(errno));
    return fd;
}

template <class T>
T need(result<T> got) {
    cr_assert(got.has_value(), "%s", got ? "" : got.error().context.c_str());
    return std::move(got).value();
}
inline void need(const result<void>& got) { cr_assert(got.has_value(), "%s", got ? "" : got.error().context.c_str()); }

inline engine open_engine(uint32_t depth, std::vector<std::span<std::byte>> buffers = {}, bool use_ring = true) {
    return need(engine::open({.depth = depth, .buffers = std::move(buffers), .use_ring = use_ring}));
}

// Moves the whole of `memory` in pieces of `chunk` bytes and returns how many completions failed.
inline unsigned move_all(engine& with, operation what, int fd, const mapping& memory, size_t chunk) {
    unsigned failures = 0;
    std::map<uint64_t, unsigned> seen;
    const auto take = [&](uint32_t least) {
        for (const completion& done : need(with.wait(least, deadline::in_ms(30'000)))) {
            cr_assert_eq(++seen[done.cookie], 1, "cookie %lu came twice", done.cookie);
            const size_t expected = std::min(chunk, memory.size_bytes() - done.cookie * chunk);
            if (done.os_errno != 0 || done.bytes != expected) ++failures;
        }
    };
    for (uint64_t at = 0; at < memory.size_bytes(); at += chunk) {
        if (with.full()) take(1);
        need(with.submit({what, fd, memory.data() + at, std::min(chunk, memory.size_bytes() - at), at, at / chunk}));
    }
    while (with.in_flight() > 0) take(with.in_flight());
    cr_assert_eq(seen.size(), (memory.size_bytes() + chunk - 1) / chunk);
    return failures;
}

// Writes, reads back through the same engine and compares.
inline int round_trip_of(engine& with, const unique_fd& fd, const mapping& source, const mapping& target) {
    if (move_all(with, operation::write, fd.get(), source, 256 << 10) != 0) return 1;
    std::memset(target.data(), 0, target.size_bytes());
    if (move_all(with, operation::read, fd.get(), target, 192 << 10) != 0) return 2;
    return std::memcmp(source.data(), target.data(), source.size_bytes()) == 0 ? 0 : 3;
}

inline int round_trip(engine& with, const std::string& path, const mapping& source, const mapping& target, int flags) {
    return round_trip_of(with, open_file(path, O_CREAT | O_TRUNC | O_RDWR | flags), source, target);
}
// The same, the engine holding the file.
inline int round_trip_held(engine& with, const std::string& path, const mapping& source, const mapping& target,
                           int flags) {
    const unique_fd fd = open_file(path, O_CREAT | O_TRUNC | O_RDWR | flags);
    const held_file held(with, fd.get());
    return round_trip_of(with, fd, source, target);
}

inline int in_child(const std::function<int()>& work) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(work());
    int status = 0;
    cr_assert_eq(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

constexpr size_t memory_bytes = (5 << 20) + 4096;

inline bool no_ring_here() { return open_engine(4).fell_back(); }

}  // namespace io_test
