// What the store's tests share: a directory that goes away, a child that reports by its exit status, file systems of
// one's own.
#pragma once

#include "store/store.h"

#include <criterion/criterion.h>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sched.h>
#include <string>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace store_test {

using namespace varde;
using namespace varde::store;

// Braces inside the assertion macros would end them.
constexpr generation_id id_of(uint64_t step, uint64_t incarnation) { return {step, incarnation}; }

class temporary_directory {
public:
    // Below `wanted` where that can be written, else where temporary files go.
    explicit temporary_directory(const char* wanted = nullptr) {
        const char* elsewhere = std::getenv("TMPDIR");
        const char* parent = wanted != nullptr && ::access(wanted, W_OK) == 0 ? wanted
                             : elsewhere != nullptr                           ? elsewhere
                                                                              : "/tmp";
        path_ = std::string(parent) + "/varde-test-XXXXXX";
        cr_assert_not_null(::mkdtemp(path_.data()), "no temporary directory");
    }
    ~temporary_directory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    temporary_directory(const temporary_directory&) = delete;
    temporary_directory& operator=(const temporary_directory&) = delete;
    const std::string& path() const { return path_; }

private:
    std::string path_;
};

template <class T>
T need(result<T> got) {
    cr_assert(got.has_value(), "%s", got ? "" : got.error().context.c_str());
    return std::move(got).value();
}
inline void need(const result<void>& got) { cr_assert(got.has_value(), "%s", got ? "" : got.error().context.c_str()); }

template <class T>
void refused(const result<T>& got, code expected, const char* words = "") {
    cr_assert(!got.has_value(), "expected %s, got a value", code_name(expected));
    cr_assert(got.error().what == expected, "expected %s, got %s: %s", code_name(expected), code_name(got.error().what),
              got.error().context.c_str());
    cr_assert(got.error().context.find(words) != std::string::npos, "no '%s' in '%s'", words,
              got.error().context.c_str());
}

inline void write_file(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
}
inline std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
}
inline bool exists(const std::string& path) {
    struct stat info {};
    return ::lstat(path.c_str(), &info) == 0;
}
// Long ago, so that what is incomplete does not pass for being written.
inline void make_old(const std::string& path) {
    const timespec times[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
    cr_assert_eq(::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW), 0);
}

inline run_directory open_run(const temporary_directory& in) {
    return need(run_directory::open(in.path(), "run", true));
}

// Writes and seals packs of `size_bytes` for all nodes but `without`.
inline void write_packs(run_directory& run, generation_id id, uint32_t node_count, int without = -1,
                        uint64_t size_bytes = 4096) {
    for (uint32_t i = 0; i < node_count; ++i) {
        if (static_cast<int>(i) == without) continue;
        pack_file pack = need(run.create_pack(id, i, node_count, size_bytes));
        need(pack.seal());
    }
}

inline manifest manifest_of(generation_id id, uint32_t node_count, uint64_t size_bytes = 4096) {
    manifest record{.run = "run", .id = id, .world = node_count * 8, .packs = {}, .wall_ns = 1, .library = "0.1.0"};
    for (uint32_t i = 0; i < node_count; ++i)
        record.packs.push_back({i, size_bytes, 0x1234567890abcdefULL + i, "host" + std::to_string(i)});
    return record;
}

inline void write_generation(run_directory& run, generation_id id, uint32_t node_count) {
    write_packs(run, id, node_count);
    need(run.commit(manifest_of(id, node_count)));
}

inline std::string generation_path(const run_directory& run, generation_id id) {
    return run.path() + "/" + generation_name(id);
}

// Runs `work` in a child; its return value is the exit status (77: the host does not allow what the test needs).
inline int in_child(const std::function<int()>& work) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(work());
    int status = 0;
    cr_assert_eq(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Mounts a file system for this process alone, as any user: in a user and mount namespace.  False where the host
// forbids it.
inline bool mount_own(const char* type, const std::string& at, const char* options) {
    if (::unshare(::geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
    return ::mount("none", at.c_str(), type, 0, options) == 0;
}

}  // namespace store_test
