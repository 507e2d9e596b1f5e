// epoll over: the listening socket, connections, processes of ranks, the inbox, a ticker, SIGTERM.
#include "agent/worker.h"

#include <cerrno>
#include <csignal>
#include <map>
#include <memory>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace varde::agent {

namespace {

constexpr long tick_ns = 100'000'000;
constexpr uint64_t settle_ms = 2000;  // for threads that wait for storage, at the end
constexpr size_t links_max = 1024;    // a rank has one; more come only from something that has gone wrong

class worker {
public:
    worker(inheritance from, const settings& with, node_memory memory, ledger records)
        : listening_(std::move(from.listening)), memory_(std::move(memory)), ledger_(std::move(records)),
          log_(with.host), node_(with, memory_, ledger_, main_, log_) {}

    result<void> prepare();
    int run();

private:
    void watch(int fd, uint32_t events);
    void watch_processes();
    void handle(const epoll_event& event);
    void accept_link();
    void serve(link& from, uint32_t events);
    void close_link(link& which);
    void close_finished();

    unique_fd listening_;
    node_memory memory_;
    ledger ledger_;
    logger log_;
    inbox main_;
    node node_;
    unique_fd epoll_;
    unique_fd signals_;
    unique_fd ticker_;
    std::map<int, std::unique_ptr<link>> links_;
    std::map<int, uint32_t> processes_;
    uint64_t processes_version_ = 0;
};

void worker::watch(int fd, uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

result<void> worker::prepare() {
    epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    signals_.reset(::signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK));  // blocked by main() in every thread
    ticker_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    const itimerspec every{{0, tick_ns}, {0, tick_ns}};
    if (!epoll_ || !signals_ || !ticker_ || ::timerfd_settime(ticker_.get(), 0, &every, nullptr) != 0) {
        return os_error(errno, "couldn't set up the agent's main loop");
    }
    for (const int fd : {listening_.get(), signals_.get(), ticker_.get(), main_.fd()}) watch(fd, EPOLLIN);
    return node_.recover();
}

void worker::watch_processes() {
    if (node_.processes_version() == processes_version_) return;
    processes_version_ = node_.processes_version();
    processes_.clear();
    for (const auto& [fd, rank] : node_.watched_processes()) {
        processes_[fd] = rank;
        watch(fd, EPOLLIN);
    }
}

void worker::accept_link() {
    auto made = link::accept(listening_.get(), ::geteuid());
    if (!made) {
        if (made.error().os_errno == EAGAIN) return;
        log_.warning(made.error().context);
        // The socket stays readable (no descriptors left, say): not before the next tick again.
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listening_.get(), nullptr);
        return;
    }
    if (links_.size() >= links_max) {
        log_.error("more than " + std::to_string(links_max) + " connections: one is turned away");
        return;
    }
    auto owned = std::make_unique<link>(std::move(*made));
    const int fd = owned->fd();
    links_[fd] = std::move(owned);
    watch(fd, EPOLLIN);
}

void worker::close_link(link& which) {
    node_.on_closed(which);
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, which.fd(), nullptr);
    links_.erase(which.fd());
}

// Links that the logic is done with, once everything is sent.
void worker::close_finished() {
    std::vector<link*> finished;
    for (const auto& [fd, one] : links_) {
        if (one->closing && !one->wants_write()) finished.push_back(one.get());
    }
    for (link* one : finished) close_link(*one);
}

void worker::serve(link& from, uint32_t events) {
    if ((events & EPOLLOUT) != 0 && !from.flush()) return close_link(from);
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
        auto filled = from.fill();
        arena::frame what;
        for (;;) {
            auto more = from.next(what);
            if (more && !*more) break;
            auto done = more ? node_.on_frame(from, what) : result<void>(more.error());
            if (done) continue;
            // The reason goes to the rank if the socket takes it.
            log_.warning("pid " + std::to_string(from.peer_pid()) + ": " + done.error().context);
            from.send_message(arena::refused{done.error().what, done.error().context});
            return close_link(from);
        }
        if (!filled) return close_link(from);
    }
    watch(from.fd(), from.wants_write() ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void worker::handle(const epoll_event& event) {
    const int fd = event.data.fd;
    if (fd == listening_.get()) {
        accept_link();
    } else if (fd == signals_.get()) {
        signalfd_siginfo about{};
        if (::read(fd, &about, sizeof about) > 0) node_.begin_stop();
    } else if (fd == ticker_.get()) {
        uint64_t count = 0;
        if (::read(fd, &count, sizeof count) > 0) node_.on_tick();
        watch(listening_.get(), EPOLLIN);
    } else if (fd == main_.fd()) {
        main_.run();
    } else if (const auto found = links_.find(fd); found != links_.end()) {
        serve(*found->second, event.events);
    } else if (const auto process = processes_.find(fd); process != processes_.end()) {
        const uint32_t rank = process->second;
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
        processes_.erase(process);
        node_.on_rank_ended(rank);
    }
}

int worker::run() {
    while (!node_.finished()) {
        watch_processes();
        // Frames that the logic queued outside of serve() and that did not fit into the socket.
        close_finished();
        for (auto& [fd, one] : links_) {
            if (one->wants_write()) watch(fd, EPOLLIN | EPOLLOUT);
        }
        epoll_event events[32];
        const int count = ::epoll_wait(epoll_.get(), events, 32, -1);
        if (count < 0 && errno != EINTR) return 1;
        for (int i = 0; i < count; i++) handle(events[i]);
    }
    discard(static_cast<int>(node_.settle_threads(settle_ms)),
            "a thread that hangs in dead storage ends with the process");
    return 0;
}

}  // namespace

int run_worker(inheritance from, const settings& with) {
    ::prctl(PR_SET_NAME, "varde-agent");
    auto memory = map_memory(std::move(from.control), std::move(from.arena));
    auto records = ledger::open(std::move(from.ledger));
    logger early(with.host);
    if (!memory || !records) {
        early.error((memory ? records.error() : memory.error()).context);
        return 1;
    }
    if (with.writer_cpus.any()) {
        const auto placed = topo::run_on(with.writer_cpus);
        if (!placed) early.warning("the writers run on any CPU: " + placed.error().context);
    }
    // Never destroyed: a thread may hang in dead storage, and the process ends by _exit.
    auto* loop = new worker(std::move(from), with, std::move(*memory), std::move(*records));
    if (auto ready = loop->prepare(); !ready) {
        early.error(ready.error().context);
        return 1;
    }
    return loop->run();
}

}  // namespace varde::agent
