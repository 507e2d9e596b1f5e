// posix_spawn, a pipe, and a pidfd to wait with a deadline.
#include "base/process.h"

#include "base/clock.h"
#include "base/handle.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

namespace varde {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
    std::vector<char*> list;
    list.reserve(texts.size() + 1);
    for (const auto& text : texts) list.push_back(const_cast<char*>(text.c_str()));
    list.push_back(nullptr);
    return list;
}

namespace {

constexpr int look_ms = 10;
constexpr uint64_t death_wait_ms = 1000;

// Starts the program in a process group of its own with stdout and stderr on `output`; returns its pid.
result<pid_t> start(const program& what, int output) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
    ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, output, 1);
    ::posix_spawn_file_actions_adddup2(&actions, output, 2);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);  // ours may be blocked for a signalfd
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    auto arguments = pointers(what.arguments);
    auto environment = pointers(what.environment);
    pid_t pid = -1;
    const int failed = ::posix_spawn(&pid, arguments[0], &actions, &attributes, arguments.data(), environment.data());
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
    if (failed != 0) return os_error(failed, "couldn't start '" + what.arguments[0] + "'");
    return pid;
}

// Reads until the end of the output or the deadline; true: the end was reached.
bool read_output(int fd, const program& what, const deadline& until, std::string& output) {
    char buffer[4096];
    for (;;) {
        pollfd waited{fd, POLLIN, 0};
        const int ready = ::poll(&waited, 1, until.left_ms());
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) return false;
        const ssize_t got = ::read(fd, buffer, sizeof buffer);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return true;
        const size_t room = what.output_bytes_max - output.size();
        output.append(buffer, std::min(room, static_cast<size_t>(got)));
    }
}

}  // namespace

// A program may close its output and go on: its end is waited for too, on a pidfd because that has a deadline.  Where
// there is none (no descriptor left, a seccomp filter) poll() has nothing to look at and is a short sleep.  Returns the
// status, as waitpid().
result<int> wait_end(pid_t pid, const deadline& until) {
    const unique_fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    for (;;) {
        const bool passed = until.passed();
        int status = 0;
        const pid_t ended = ::waitpid(pid, &status, WNOHANG);
        if (ended == pid) return status;
        if (ended < 0 && errno != EINTR) return os_error(errno, "couldn't learn how it ended");
        if (passed) return fail(code::timeout, "it has not ended");
        pollfd waited{process.get(), POLLIN, 0};
        discard(::poll(&waited, 1, process ? until.left_ms() : until.left_ms(look_ms)), "waitpid() is what decides");
    }
}

result<program_outcome> run_program(const program& what) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return os_error(errno, "couldn't make a pipe");
    const unique_fd reading(ends[0]);
    unique_fd writing(ends[1]);
    const auto pid = start(what, writing.get());
    if (!pid) return pid.error();
    writing.reset();

    program_outcome outcome;
    const auto until = deadline::in_ms(static_cast<uint64_t>(what.timeout_ms));
    const bool closed = read_output(reading.get(), what, until, outcome.output);
    const auto status = closed ? wait_end(*pid, until) : fail(code::timeout, "its output has not ended");
    if (status) {
        outcome.exit_status = WIFEXITED(*status) ? WEXITSTATUS(*status) : 128 + WTERMSIG(*status);
        return outcome;
    }
    failure why = status.error();
    const std::string name = "'" + what.arguments[0] + "'";
    why.context = name + ": " + why.context;
    if (why.what != code::timeout) return why;
    ::kill(-*pid, SIGKILL);
    // Whoever hangs in the kernel (a dead mount) dies only when the call returns.  It is left behind, and its entry in
    // the process table stays until this process ends: better than to wait for it without a bound.
    const bool died = wait_end(*pid, deadline::in_ms(death_wait_ms)).has_value();
    why.context = name + " did not end within " + std::to_string(what.timeout_ms) + " ms and was killed" +
                  (died ? "" : ", but hangs in the kernel");
    return why;
}

}  // namespace varde
