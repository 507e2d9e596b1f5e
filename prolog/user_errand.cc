// fork(), a pipe, poll().
#include "prolog/user_errand.h"

#include "base/clock.h"
#include "prolog/user_process.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

namespace varde::node {

namespace {

constexpr size_t answer_bytes_max = 16 << 10;  // fits into a pipe, so the child's write never waits
constexpr int answer_fd = 3;
constexpr int end_ms = 100;  // a killed process is gone long before, or is held by the kernel

[[noreturn]] void run_child(uid_t uid, gid_t gid, int answer, pid_t parent,
                            const std::function<std::string()>& work) noexcept {
    ::setsid();
    reset_signals();
    if (!arrange_descriptors(&answer, 1)) ::_exit(1);
    ::umask(077);
    if (::chdir("/") != 0 || ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || !become(uid, gid)) ::_exit(1);
    // After become(), which takes the wish away.
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent) ::_exit(1);
    const std::string text = work().substr(0, answer_bytes_max);
    discard(static_cast<int>(::write(answer_fd, text.data(), text.size())), "then there is no answer");
    ::_exit(0);
}

}  // namespace

result<user_errand> user_errand::begin(uid_t uid, gid_t gid, const std::function<std::string()>& work) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return os_error(errno, "couldn't make a pipe");
    unique_fd answer(ends[0]);
    const unique_fd other(ends[1]);
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) return os_error(errno, "couldn't fork");
    if (pid == 0) run_child(uid, gid, other.get(), parent, work);
    user_errand made;
    made.answer_ = std::move(answer);
    made.process_.pid = pid;
    const auto facts = read_process(pid);
    if (!facts) return facts.error();
    made.process_.start_ticks = facts->start_ticks;
    return made;
}

user_errand::~user_errand() {
    if (answer_) end();
}

std::optional<std::string> user_errand::wait(int timeout_ms) {
    const auto until = deadline::in_ms(static_cast<uint64_t>(timeout_ms));
    while (!ended_ && answer_) {
        pollfd waited{answer_.get(), POLLIN, 0};
        const int polled = ::poll(&waited, 1, until.left_ms());
        if (polled < 0 && errno == EINTR) continue;
        if (polled <= 0) return std::nullopt;
        std::array<char, 4096> buffer{};
        const ssize_t got = ::read(answer_.get(), buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) continue;
        if (got > 0 && text_.size() < answer_bytes_max) text_.append(buffer.data(), static_cast<size_t>(got));
        else ended_ = true;
    }
    return ended_ ? std::optional(text_) : std::nullopt;
}

bool user_errand::end() {
    answer_.reset();
    // It is our child and not yet waited for: the number is its own.
    if (process_.pid > 0) ::kill(process_.pid, SIGKILL);
    const auto until = deadline::in_ms(end_ms);
    while (process_.pid > 0) {
        const pid_t gone = ::waitpid(process_.pid, nullptr, WNOHANG);
        if (gone == process_.pid || (gone < 0 && errno != EINTR)) process_ = {};
        else if (until.passed()) return false;
        else ::usleep(1'000);
    }
    return true;
}

}  // namespace varde::node
