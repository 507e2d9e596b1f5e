// Fork, wait, fork again.
#include "agent/holder.h"

#include "agent/ledger.h"
#include "agent/log.h"
#include "arena/control.h"
#include "base/clock.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace varde::agent {

namespace {

// A worker that dies again and again must not eat the node: the pause doubles up to this.
constexpr uint64_t pause_min_ms = 100;
constexpr uint64_t pause_max_ms = 10'000;
constexpr uint32_t sick_starts_max = 10;
constexpr int look_ms = 200;
constexpr uint64_t healthy_ns = 60 * ns_per_s;  // a worker that lived so long starts the count anew

unique_fd duplicate(int fd) { return unique_fd(::fcntl(fd, F_DUPFD_CLOEXEC, 3)); }

pid_t start_worker(int listening, const node_memory& memory, const std::array<unique_fd, 2>& records,
                   const settings& with) {
    inheritance copy{duplicate(listening),
                     duplicate(memory.control_fd.get()),
                     duplicate(memory.arena_fd.get()),
                     {duplicate(records[0].get()), duplicate(records[1].get())}};
    const pid_t holder = ::getpid();
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a worker without its holder would be nobody's
    if (::getppid() != holder) ::_exit(1);
    const int status = run_worker(std::move(copy), with);
    ::_exit(status);
}

// Waits until the worker has ended, passing SIGTERM on; returns its wait status.
int wait_for(pid_t worker, int signals) {
    const unique_fd process(static_cast<int>(::syscall(SYS_pidfd_open, worker, 0)));
    int status = 0;
    for (;;) {
        pollfd waited[2] = {{process.get(), POLLIN, 0}, {signals, POLLIN, 0}};
        if (::poll(waited, 2, process ? -1 : look_ms) < 0) {
            waited[1].revents = 0;
            if (errno != EINTR)
                std::this_thread::sleep_for(std::chrono::milliseconds(look_ms));  // out of kernel memory
        }
        signalfd_siginfo about{};
        if ((waited[1].revents & POLLIN) != 0 && ::read(signals, &about, sizeof about) > 0) ::kill(worker, SIGTERM);
        if (::waitpid(worker, &status, WNOHANG) == worker) return status;
    }
}

// Reserves and locks the arena.  Without a lock it works too; without its pages it must not be used.
void prepare(const node_memory& memory, logger& log) {
    auto& state = arena::node_of(memory.control.data())->arena_state;
    if (auto done = reserve_memory(memory.arena); !done) {
        log.error(done.error().context + ", so no checkpoints can be made; lower --ckpt-memory");
        state = arena::reservation::failed;
        return;
    }
    state = arena::reservation::done;
    if (auto done = lock_memory(memory); !done) log.warning(done.error().context);
}

}  // namespace

int run_holder(unique_fd listening, node_memory memory, const settings& with) {
    logger log(with.host);
    auto records = ledger::make();
    if (!records) {
        log.error(records.error().context);
        return 1;
    }
    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    const unique_fd signals(::signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK));

    uint64_t pause_ms = pause_min_ms;
    uint32_t sick_starts = 0;
    bool locking = false;
    for (;;) {
        const uint64_t start_ns = mono_ns();
        const pid_t worker = start_worker(listening.get(), memory, *records, with);
        if (worker < 0) {  // a limit on processes, or no memory: what is staged is kept, and a worker may start later
            log.error(os_error(errno, "couldn't start a worker").context + "; trying again in " +
                      std::to_string(pause_ms) + " ms");
            std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
            pause_ms = std::min(2 * pause_ms, pause_max_ms);
            continue;
        }
        if (!locking) {
            // After the first fork, which is quick while no page of the arena is there; a large arena takes many
            // seconds.
            locking = true;
            std::thread([&memory, &log] { prepare(memory, log); }).detach();
        }
        const int status = wait_for(worker, signals.get());
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) ::_exit(0);  // the locking thread may still be at work
        if (mono_ns() - start_ns > healthy_ns) {
            pause_ms = pause_min_ms;
            sick_starts = 0;
        }
        // The prolog's agent is ended by the epilog; nobody ends one that the library has started.
        if (with.embedded && ++sick_starts == sick_starts_max) {
            log.error("the agent's worker dies at each start: giving up");
            ::_exit(1);
        }
        log.error("the agent's worker has ended (" +
                  (WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                       : "status " + std::to_string(WEXITSTATUS(status))) +
                  "), starting another in " + std::to_string(pause_ms) + " ms; what is staged is kept");
        std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
        pause_ms = std::min(2 * pause_ms, pause_max_ms);
    }
}

}  // namespace varde::agent
