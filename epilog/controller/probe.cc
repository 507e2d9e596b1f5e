// One non-blocking connect per node, repeated where it is refused.
#include "epilog/controller/probe.h"

#include "base/clock.h"
#include "base/handle.h"

#include <cerrno>
#include <cstring>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

namespace varde::controller {

namespace {

struct attempt {
    const node_facts* node = nullptr;
    sockaddr_storage address{};
    socklen_t address_bytes = 0;
    unique_fd socket;       // a connection under way
    uint64_t again_ns = 0;  // when to try again, where there is none
    bool refused = false;   // at least once
    bool answered = false;
};

// A name that does not resolve is no sign of death: the node counts as answering.
bool resolve(attempt& to, uint16_t port) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const std::string service = std::to_string(to.node->port != 0 ? to.node->port : port);
    if (::getaddrinfo(to.node->address.c_str(), service.c_str(), &hints, &found) != 0 || found == nullptr) return false;
    std::memcpy(&to.address, found->ai_addr, found->ai_addrlen);
    to.address_bytes = found->ai_addrlen;
    ::freeaddrinfo(found);
    return true;
}

void settle(attempt& one, int os_errno, uint64_t now, const probe_limits& limits) {
    one.socket.reset();
    if (os_errno == 0) one.answered = true;
    else if (os_errno == ECONNREFUSED || os_errno == ECONNRESET) one.refused = true;
    one.again_ns = now + static_cast<uint64_t>(limits.retry_ms) * ns_per_ms;
}

void start(attempt& one, uint64_t now, const probe_limits& limits) {
    one.socket.reset(::socket(one.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    // Out of descriptors is our trouble, not the node's.
    if (!one.socket) return settle(one, 0, now, limits);
    if (::connect(one.socket.get(), reinterpret_cast<const sockaddr*>(&one.address), one.address_bytes) == 0)
        return settle(one, 0, now, limits);
    if (errno != EINPROGRESS) settle(one, errno, now, limits);
}

bool finished(const attempt& one, uint64_t elapsed_ms, const probe_limits& limits) {
    if (one.answered) return true;
    return elapsed_ms >= static_cast<uint64_t>(one.refused ? limits.refused_ms : limits.silent_ms);
}

void check(attempt& one, short events, uint64_t now, const probe_limits& limits) {
    if (events == 0) return;
    int os_errno = 0;
    socklen_t size = sizeof os_errno;
    if (::getsockopt(one.socket.get(), SOL_SOCKET, SO_ERROR, &os_errno, &size) != 0) os_errno = errno;
    settle(one, os_errno, now, limits);
}

}  // namespace

std::vector<std::string> find_silent(const std::vector<node_facts>& nodes, uint16_t port, const probe_limits& limits) {
    std::vector<attempt> attempts(nodes.size());
    for (size_t i = 0; i < nodes.size(); i++) {
        attempts[i].node = &nodes[i];
        attempts[i].answered = !resolve(attempts[i], port);
    }
    const uint64_t begin = mono_ns();
    for (;;) {
        const uint64_t now = mono_ns();
        const uint64_t elapsed_ms = (now - begin) / ns_per_ms;
        std::vector<pollfd> waited;
        std::vector<attempt*> waiting;
        bool open = false;
        for (attempt& one : attempts) {
            if (finished(one, elapsed_ms, limits)) continue;
            if (!one.socket && now >= one.again_ns) start(one, now, limits);
            open = open || !one.answered;
            if (!one.socket) continue;
            waited.push_back({one.socket.get(), POLLOUT, 0});
            waiting.push_back(&one);
        }
        if (!open) break;
        // Short, because limits and repetitions have to be looked at, too.
        ::poll(waited.data(), waited.size(), 20);
        const uint64_t after = mono_ns();
        for (size_t i = 0; i < waited.size(); i++) check(*waiting[i], waited[i].revents, after, limits);
    }
    std::vector<std::string> silent;
    for (const attempt& one : attempts)
        if (!one.answered) silent.push_back(one.node->name);
    return silent;
}

}  // namespace varde::controller
