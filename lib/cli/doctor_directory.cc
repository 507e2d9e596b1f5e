// A directory of checkpoints, looked at by a child that may hang: a mount that does not answer holds only the child.
#include "cli/doctor.h"

#include "base/clock.h"
#include "base/handle.h"
#include "base/units.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <poll.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

namespace varde::cli {

namespace {

constexpr size_t block_bytes = 4096;
constexpr int answer_ms = 5000;

// Writes one aligned block and makes it durable; errno, or 0.
int write_block(const std::string& path, int more_flags) {
    const unique_fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | more_flags, 0600));
    if (!file) return errno;
    const std::unique_ptr<void, void (*)(void*)> block(std::aligned_alloc(block_bytes, block_bytes), std::free);
    if (!block) return ENOMEM;
    std::memset(block.get(), 0, block_bytes);
    const bool written =
        ::write(file.get(), block.get(), block_bytes) == static_cast<ssize_t>(block_bytes) && ::fsync(file.get()) == 0;
    const int failed = written ? 0 : errno;
    ::unlink(path.c_str());
    return failed;
}

finding try_directory(const std::string& path) {
    const std::string what = "directory";
    const std::string name = path + "/.varde-doctor." + std::to_string(::getpid());
    struct statvfs about {};
    if (::statvfs(path.c_str(), &about) != 0)
        return {verdict::wrong, what, path + ": " + std::strerror(errno), "make it, or give another to --ckpt-dir"};
    const std::string room = format_bytes(uint64_t{about.f_bavail} * about.f_frsize) + " free";
    const int direct = write_block(name, O_DIRECT);
    if (direct == 0) return {verdict::ok, what, path + ": O_DIRECT, " + room, ""};
    ::unlink(name.c_str());
    const int buffered = write_block(name, 0);
    ::unlink(name.c_str());
    if (buffered != 0)
        return {verdict::wrong, what, path + ": " + std::strerror(buffered) + " as user " + std::to_string(::geteuid()),
                buffered == ENOSPC || buffered == EDQUOT ? "make room, or lower --ckpt-keep"
                                                         : "let the user write it, or give another to --ckpt-dir"};
    return {verdict::warn, what, path + ": no O_DIRECT (" + std::strerror(direct) + "), " + room,
            "another file system for --ckpt-dir; writing is slower here, and goes through the page cache"};
}

// One line over a pipe: verdict, found, change.
[[noreturn]] void answer(int pipe, const std::string& path) {
    const finding seen = try_directory(path);
    const std::string line = std::to_string(static_cast<int>(seen.is)) + "\n" + seen.found + "\n" + seen.change;
    ::_exit(::write(pipe, line.data(), line.size()) == static_cast<ssize_t>(line.size()) ? 0 : 1);
}

std::string read_answer(int pipe) {
    std::string text;
    const auto until = deadline::in_ms(answer_ms);
    std::array<char, 4096> buffer{};
    for (;;) {
        pollfd event{pipe, POLLIN, 0};
        const int ready = ::poll(&event, 1, until.left_ms());
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) return "";
        const ssize_t got = ::read(pipe, buffer.data(), buffer.size());
        if (got <= 0) return text;
        text.append(buffer.data(), static_cast<size_t>(got));
    }
}

}  // namespace

void check_directory(const std::string& path, findings& into) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
        into.push_back({verdict::wrong, "directory", std::string("no pipe: ") + std::strerror(errno), "try again"});
        return;
    }
    const unique_fd read_end(ends[0]);
    unique_fd write_end(ends[1]);
    const pid_t child = ::fork();
    if (child == 0) answer(write_end.get(), path);
    write_end = unique_fd();
    const std::string text = child > 0 ? read_answer(read_end.get()) : "";
    if (child > 0) ::kill(child, SIGKILL);
    const size_t first = text.find('\n');
    const size_t second = first == std::string::npos ? first : text.find('\n', first + 1);
    if (second == std::string::npos) {
        // A child that the kernel holds is not waited for: it ends with the mount.
        if (child > 0) ::waitpid(child, nullptr, WNOHANG);
        into.push_back({verdict::wrong, "directory",
                        path + " does not answer within " + std::to_string(answer_ms / 1000) + " s",
                        "the mount or its server; jobs with it start without a checkpoint"});
        return;
    }
    ::waitpid(child, nullptr, 0);
    into.push_back({static_cast<verdict>(text[0] - '0'), "directory", text.substr(first + 1, second - first - 1),
                    text.substr(second + 1)});
}

}  // namespace varde::cli
