// The child's way from root in slurmd's session to the user's agent.
#include "prolog/agent_start.h"

#include "base/clock.h"
#include "base/process.h"
#include "base/units.h"
#include "prolog/user_process.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

namespace varde::node {

namespace {

constexpr size_t ready_line_bytes_max = 512;

// What slurmd has for itself: protection from the OOM killer, and a limit on locked memory that is far below an
// arena.  The arena is bounded by the control group and by the check before; io_uring counts its buffers once more
// and per user, so a number cannot be right.
void set_limits() {
    const rlimit all{RLIM_INFINITY, RLIM_INFINITY};
    rlimit locked{};
    // A container may not let even root go beyond the hard limit; the agent says what it could not lock.
    if (::setrlimit(RLIMIT_MEMLOCK, &all) != 0 && ::getrlimit(RLIMIT_MEMLOCK, &locked) == 0) {
        locked.rlim_cur = locked.rlim_max;
        ::setrlimit(RLIMIT_MEMLOCK, &locked);
    }
    const int score = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (score < 0) return;
    discard(static_cast<int>(::write(score, "0", 1)), "slurmd's own score is only a worse choice");
    ::close(score);
}

[[noreturn]] void give_up(const char* what) {
    std::array<char, 256> line{};
    const int length =
        std::snprintf(line.data(), line.size(), "degraded couldn't %s: %s\n", what, std::strerror(errno));
    discard(static_cast<int>(::write(agent_ready_fd, line.data(), static_cast<size_t>(length))),
            "then the end of the pipe tells");
    ::_exit(127);
}

[[noreturn]] void run_child(const agent_plan& plan, int gate, int listener, int ready) {
    ::setsid();
    reset_signals();
    set_limits();
    char go = 0;
    // End of file: the prolog is gone, and nobody has written this process down.
    if (::read(gate, &go, 1) != 1) ::_exit(0);
    const int kept[] = {listener, ready};
    static_assert(agent_listen_fd == 3 && agent_ready_fd == 4);
    if (!arrange_descriptors(kept, 2)) ::_exit(127);
    ::umask(077);
    if (::chdir("/") != 0) give_up("change to /");
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) give_up("give up new privileges");
    if (!become(plan.uid, plan.gid)) give_up("become the job's user");
    const auto arguments = pointers(plan.arguments);
    const auto environment = pointers(plan.environment);
    ::execve(arguments[0], arguments.data(), environment.data());
    give_up("start varde-agent");
}

// How the process ended, if it has.
std::string exit_text(pid_t pid) {
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG) != pid) return "";
    if (WIFSIGNALED(status)) return std::string(" by signal ") + std::to_string(WTERMSIG(status));
    return " with exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

std::string read_ready_line(std::string_view line) {
    if (line == "ready") return "";
    constexpr std::string_view degraded = "degraded ";
    if (line.starts_with(degraded) && line.size() > degraded.size())
        return printable(line.substr(degraded.size()), ready_line_bytes_max);
    return "varde-agent said '" + printable(line) + "'";
}

result<started_agent> started_agent::fork_waiting(const agent_plan& plan, unique_fd listener) {
    int ready[2];
    int gate[2];
    if (::pipe2(ready, O_CLOEXEC) != 0) return os_error(errno, "couldn't make a pipe");
    unique_fd ready_read(ready[0]);
    const unique_fd ready_write(ready[1]);
    if (::pipe2(gate, O_CLOEXEC) != 0) return os_error(errno, "couldn't make a pipe");
    const unique_fd gate_read(gate[0]);
    unique_fd gate_write(gate[1]);
    const pid_t pid = ::fork();
    if (pid < 0) return os_error(errno, "couldn't fork");
    if (pid == 0) {
        gate_write.reset();  // else the child would never see the end of its own gate
        run_child(plan, gate_read.get(), listener.get(), ready_write.get());
    }
    started_agent made;
    made.gate_ = std::move(gate_write);
    made.ready_ = std::move(ready_read);
    const auto facts = read_process(pid);
    if (!facts) return facts.error();
    made.process_ = {pid, facts->start_ticks};
    return made;
}

result<void> started_agent::go() {
    if (::write(gate_.get(), "g", 1) != 1) return os_error(errno, "couldn't start varde-agent");
    gate_.reset();
    return {};
}

result<std::string> started_agent::wait_ready(int timeout_ms) {
    const auto until = deadline::in_ms(static_cast<uint64_t>(timeout_ms));
    std::string line;
    while (line.find('\n') == std::string::npos && line.size() < ready_line_bytes_max) {
        pollfd waited{ready_.get(), POLLIN, 0};
        const int polled = ::poll(&waited, 1, until.left_ms());
        if (polled < 0 && errno == EINTR) continue;
        if (polled <= 0)
            return fail(code::timeout, "varde-agent was not ready within " + std::to_string(timeout_ms) + " ms");
        std::array<char, ready_line_bytes_max> buffer{};
        const ssize_t got = ::read(ready_.get(), buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return fail(code::unavailable, "varde-agent ended before it was ready" + exit_text(process_.pid));
        line.append(buffer.data(), static_cast<size_t>(got));
    }
    line.resize(std::min(line.find('\n'), line.size()));
    return read_ready_line(line);
}

}  // namespace varde::node
