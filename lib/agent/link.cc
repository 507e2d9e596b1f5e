// Non-blocking frames over a Unix socket.
#include "agent/link.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/socket.h>

namespace varde::agent {

result<link> link::accept(int listening, uid_t owner) {
    unique_fd socket(::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return os_error(errno, "couldn't accept a connection");
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
        return os_error(errno, "couldn't read the peer's credentials");
    }
    if (peer.uid != owner && peer.uid != 0) {
        return fail(code::invalid, "refused a connection of uid " + std::to_string(peer.uid) + ", pid " +
                                       std::to_string(peer.pid) + ": this agent belongs to uid " +
                                       std::to_string(owner));
    }
    link made;
    made.socket_ = std::move(socket);
    made.peer_pid_ = peer.pid;
    return made;
}

result<void> link::fill() {
    char buffer[65536];
    for (;;) {
        const ssize_t got = ::recv(socket_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
        if (got > 0) {
            frames_.feed({buffer, static_cast<size_t>(got)});
            // One buffer at a time: a rank that sends without end must not hold up the others.
            return {};
        }
        if (got == 0) return fail(code::unavailable, "the peer has closed");
        if (errno == EINTR) continue;
        if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
        return os_error(errno, "couldn't read from a rank");
    }
}

void link::send(std::string frame, const std::array<int, 2>* fds) {
    outgoing next{std::move(frame), 0, {}};
    if (fds != nullptr) {
        for (size_t i = 0; i < fds->size(); i++) next.fds[i].reset(::fcntl((*fds)[i], F_DUPFD_CLOEXEC, 0));
    }
    out_.push_back(std::move(next));
    discard(flush(), "a broken connection shows at the next read");
}

result<void> link::flush() {
    while (!out_.empty()) {
        auto& next = out_.front();
        const int numbers[2] = {next.fds[0].get(), next.fds[1].get()};
        const std::span<const int> travelling(numbers, next.fds[0] ? 2 : 0);
        const ssize_t sent =
            arena::send_some(socket_.get(), std::string_view(next.bytes).substr(next.sent), travelling);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
        if (sent < 0) {
            const int os_errno = errno;
            out_.clear();
            return os_error(os_errno, "couldn't send to a rank");
        }
        for (auto& fd : next.fds) fd.reset();  // they went with the first byte
        next.sent += static_cast<size_t>(sent);
        if (next.sent == next.bytes.size()) out_.pop_front();
    }
    return {};
}

}  // namespace varde::agent
