// The service thread.
#include "client/link.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace varde::client {

namespace {

// Frames of a restore that wait for the calling thread.  The agent has at most one chunk per place of the slab under
// way; beyond this number the socket is left full, which holds the agent up and nobody else.
constexpr size_t waiting_max = 1024;

result<std::pair<dev_t, ino_t>> identity_of(int fd) {
    struct stat found {};
    if (::fstat(fd, &found) != 0) return os_error(errno, "couldn't look at the agent's memory");
    return std::pair{found.st_dev, found.st_ino};
}

}  // namespace

result<void> link::start(beginning with) {
    path_ = std::move(with.path);
    hello_ = std::move(with.hello);
    node_ = with.node;
    rank_ = with.rank;
    retry_ = with.retry;
    pause_ms_ = retry_.first_ms;
    const std::array<int, 2> fds{with.welcome->control.get(), with.welcome->arena.get()};
    for (size_t i = 0; i < fds.size(); i++) {
        const auto identity = identity_of(fds[i]);
        if (!identity) return identity.error();
        memory_[i] = *identity;
    }
    place_ = with.welcome->body;
    wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_) return os_error(errno, "couldn't make an eventfd");
    adopt(std::move(with.socket), std::move(with.rest));
    return thread_.start("varde-link", enter, this);
}

void link::stop() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = final_ = true;
    }
    wake();
    thread_.join();
}

void link::wake() const noexcept {
    const uint64_t one = 1;
    if (wake_)
        discard(static_cast<int>(::write(wake_.get(), &one, sizeof one)), "a counter that is full wakes as well");
}

result<void> link::health() const {
    const std::lock_guard lock(mutex_);
    if (connected_ && !final_) return {};
    if (final_) return why_;
    return fail(code::unavailable,
                "the connection to the agent is lost (" + why_.context + "); it is tried again in the background");
}

// ---- What the calling thread asks for

void link::push(std::string frame) {
    // Without a connection there is nobody to tell; repeat() tells the next worker all that it needs.
    if (connected_) out_.push_back(std::move(frame));
}

void link::send_layout(std::string frame) {
    const std::lock_guard lock(mutex_);
    layout_ = frame;
    push(std::move(frame));
}

void link::begin_restore(std::string frame) {
    {
        const std::lock_guard lock(mutex_);
        in_.clear();
        restoring_ = true;
        work_ = frame;
        work_step_ = 0;
        push(std::move(frame));
    }
    wake();
}

void link::begin_save(std::string frame, uint64_t step) {
    {
        const std::lock_guard lock(mutex_);
        work_ = frame;
        work_step_ = step;
        push(std::move(frame));
    }
    wake();
}

void link::give_up(uint64_t step, uint64_t end_chunk) {
    {
        const std::lock_guard lock(mutex_);
        give_up_step_ = step;
        give_up_end_ = end_chunk;
        // A worker that has never heard of the save needs it too, to count the chunks as we do.
        std::string frame = arena::frame_of(arena::give_up{step});
        work_ += frame;
        push(std::move(frame));
    }
    wake();
}

void link::end_work() {
    const std::lock_guard lock(mutex_);
    work_.clear();
    restoring_ = false;
    in_.clear();
}

void link::answer(std::string frame, uint64_t connection) {
    {
        const std::lock_guard lock(mutex_);
        // To another worker the ticket would mean another chunk.
        if (connection != connection_) return;
        push(std::move(frame));
    }
    wake();
}

result<link::received> link::receive(deadline until) {
    std::unique_lock lock(mutex_);
    for (;;) {
        if (!in_.empty()) {
            received next = std::move(in_.front());
            const bool was_full = in_.size() == waiting_max;
            in_.pop_front();
            lock.unlock();
            if (was_full) wake();
            return next;
        }
        if (final_) return why_;
        if (until.passed()) return fail(code::timeout, "the agent has said nothing for too long");
        news_.wait_for(lock, std::chrono::milliseconds(until.left_ms()));
    }
}

void link::say_bye(deadline until) {
    {
        const std::lock_guard lock(mutex_);
        if (!connected_) return;
        bye_said_ = true;
        push(arena::frame_of(arena::bye{}));
    }
    wake();
    std::unique_lock lock(mutex_);
    while (connected_ && !until.passed()) news_.wait_for(lock, std::chrono::milliseconds(until.left_ms()));
}

// ---- The service thread

void* link::enter(void* self) {
    static_cast<link*>(self)->run();
    return nullptr;
}

void link::run() {
    for (;;) {
        bool lost_for_good = false;
        {
            const std::lock_guard lock(mutex_);
            if (stop_) return;
            lost_for_good = final_ && !connected_;
        }
        if (lost_for_good) rest_for(retry_.most_ms);
        else if (socket_) serve();
        else reconnect();
    }
}

void link::rest_for(uint64_t ms) const {
    {
        const std::lock_guard lock(mutex_);
        if (stop_) return;
    }
    pollfd event{wake_.get(), POLLIN, 0};
    discard(::poll(&event, 1, static_cast<int>(ms)), "woken or not, the caller looks again");
    uint64_t count = 0;
    discard(static_cast<int>(::read(wake_.get(), &count, sizeof count)), "only empties the counter");
}

void link::serve() {
    bool to_send = false;
    bool to_read = false;
    {
        const std::lock_guard lock(mutex_);
        to_send = !sending_.empty() || !out_.empty();
        to_read = in_.size() < waiting_max;
    }
    const short wanted = static_cast<short>((to_read ? POLLIN : 0) | (to_send ? POLLOUT : 0));
    std::array<pollfd, 2> events{pollfd{socket_.get(), wanted, 0}, pollfd{wake_.get(), POLLIN, 0}};
    if (::poll(events.data(), events.size(), -1) < 0 && errno != EINTR)
        return lose(os_error(errno, "couldn't wait for the agent"));
    uint64_t count = 0;
    if (events[1].revents != 0)
        discard(static_cast<int>(::read(wake_.get(), &count, sizeof count)), "only empties the counter");
    if ((events[0].revents & POLLOUT) != 0)
        if (auto written = write_some(); !written) return lose(written.error());
    if ((events[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
        if (auto read = read_some(); !read) return lose(read.error());
}

result<void> link::write_some() {
    for (;;) {
        if (sending_.empty()) {
            const std::lock_guard lock(mutex_);
            if (out_.empty()) return {};
            sending_ = std::move(out_.front());
            out_.pop_front();
            sent_ = 0;
        }
        const ssize_t length =
            ::send(socket_.get(), sending_.data() + sent_, sending_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (length < 0 && (errno == EAGAIN || errno == EINTR)) return {};
        if (length < 0) return os_error(errno, "couldn't send to the agent");
        sent_ += static_cast<size_t>(length);
        if (sent_ == sending_.size()) sending_.clear();
    }
}

result<void> link::read_some() {
    std::array<char, 16384> buffer;
    const ssize_t length = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (length < 0 && (errno == EAGAIN || errno == EINTR)) return {};
    if (length < 0) return os_error(errno, "couldn't read from the agent");
    if (length == 0) return fail(code::unavailable, "the agent has closed the connection");
    reader_.feed(std::string_view(buffer.data(), static_cast<size_t>(length)));
    arena::frame what;
    for (;;) {
        auto more = reader_.next(what);
        if (!more) return std::move(more).error();
        if (!*more) return {};
        if (auto taken = take(std::move(what)); !taken) return taken;
    }
}

result<void> link::take(arena::frame what) {
    using arena::message;
    const std::lock_guard lock(mutex_);
    switch (what.type) {
    case message::refused: {
        const auto refusal = arena::decode<arena::refused>(what.payload);
        if (!refusal) return refusal.error();
        final_ = true;
        why_ = fail(refusal->what, refusal->text);
        break;
    }
    case message::give_up: {
        const auto answer = arena::decode<arena::give_up>(what.payload);
        if (!answer) return answer.error();
        if (answer->step != give_up_step_ || give_up_step_ == 0) break;
        rank_->staged.store(give_up_end_, std::memory_order_release);
        arena::ring(node_->doorbell);
        give_up_step_ = 0;
        break;
    }
    case message::restore_chunk:
    case message::restored:
        // Late ones, of a restore that has ended, mean nothing any more.
        if (restoring_) in_.push_back({std::move(what), connection_});
        break;
    case message::bye: return fail(code::unavailable, "the agent has said bye");
    default:
        return fail(code::invalid, "the agent sent a message of type " +
                                       std::to_string(static_cast<unsigned>(what.type)) +
                                       ", which a rank does not understand");
    }
    news_.notify_all();
    return {};
}

void link::lose(const failure& why) {
    socket_.reset();
    sending_.clear();
    {
        const std::lock_guard lock(mutex_);
        connected_ = false;
        connection_++;
        out_.clear();
        in_.clear();
        if (!final_) why_ = why;
        if (bye_said_) final_ = true;
    }
    news_.notify_all();
}

void link::adopt(unique_fd socket, arena::frame_reader rest) {
    socket_ = std::move(socket);
    reader_ = std::move(rest);
    const std::lock_guard lock(mutex_);
    connected_ = true;
    connection_++;
    repeat();
}

// What a new worker has to hear.  The work is left out when it is known to be done.
void link::repeat() {
    if (!layout_.empty()) out_.push_back(layout_);
    if (work_.empty()) return;
    const bool done = work_step_ != 0 && give_up_step_ == 0 &&
                      (node_->complete_step.load() >= work_step_ || node_->failed_step.load() >= work_step_);
    if (!done) out_.push_back(work_);
}

result<greeting> link::greet(unique_fd& socket) {
    const auto until = deadline::in_ms(retry_.answer_ms);
    auto connected = connect_to(path_, until);
    if (!connected) return std::move(connected).error();
    arena::hello again = hello_;
    again.again = 1;
    auto made = shake_hands(connected->get(), again, until, wake_.get());
    if (!made) return made;
    const std::array<int, 2> fds{made->control.get(), made->arena.get()};
    for (size_t i = 0; i < fds.size(); i++) {
        const auto identity = identity_of(fds[i]);
        if (!identity) return identity.error();
        // Not `unavailable`: with other memory this run has nothing to come back to.
        if (*identity != memory_[i])
            return fail(code::internal, "another agent with other memory answers on '" + path_ +
                                            "'; checkpoints go on after the next start of the job");
    }
    if (made->body != place_)
        return fail(code::internal, "the agent on '" + path_ +
                                        "' has another place for this rank than before; checkpoints go on after the "
                                        "next start of the job");
    socket = std::move(*connected);
    return made;
}

void link::reconnect() {
    rest_for(pause_ms_);
    {
        const std::lock_guard lock(mutex_);
        if (stop_) return;
    }
    unique_fd socket;
    auto made = greet(socket);
    if (made) {
        pause_ms_ = retry_.first_ms;
        return adopt(std::move(socket), std::move(made->rest));
    }
    pause_ms_ = std::min(2 * pause_ms_, retry_.most_ms);
    const code what = made.error().what;
    const bool passing =
        what == code::unavailable || what == code::timeout || what == code::not_found || what == code::io;
    {
        const std::lock_guard lock(mutex_);
        why_ = made.error();
        if (!passing) final_ = true;
    }
    if (!passing) news_.notify_all();
}

}  // namespace varde::client
