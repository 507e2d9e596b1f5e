// One non-blocking connect per address of a node, repeated where it is refused.
#include "base/slurmd_probe.h"

#include "base/clock.h"
#include "base/handle.h"
#include "base/resolve.h"
#include "base/result.h"

#include <cerrno>
#include <poll.h>

namespace varde {

namespace {

struct attempt {
    size_t node = 0;  // its place among the nodes
    socket_address address;
    unique_fd socket;       // a connection under way
    uint64_t begin_ns = 0;  // of the first try; 0: it waits for its turn
    uint64_t again_ns = 0;  // when to try again, where no connection is under way
    bool refused = false;   // at least once
    bool starved = false;   // we had no socket or port for it the last time
    bool ended = false;
};

uint64_t in_ns(int ms) noexcept { return static_cast<uint64_t>(ms) * ns_per_ms; }

class probe {
public:
    probe(const std::vector<node_facts>& nodes, uint16_t port, const probe_limits& limits)
        : limits_(limits), seen_(nodes.size(), sight::unknown) {
        const auto addresses = resolve(nodes, port, limits.resolve_ms);
        for (size_t node = 0; node < nodes.size(); node++) {
            for (const socket_address& each : addresses[node]) {
                attempts_.emplace_back();
                attempts_.back().node = node;
                attempts_.back().address = each;
                seen_[node] = sight::silent;  // until one of its addresses says otherwise
            }
        }
    }

    std::vector<sight> run() {
        while (start_and_end()) wait();
        return seen_;
    }

private:
    // Who is due is started, as far as there are sockets; who has had its time ends.  False: nobody is left.
    bool start_and_end() {
        const uint64_t now = mono_ns();
        size_t open = 0;
        for (const attempt& one : attempts_) open += one.socket ? 1U : 0U;
        bool left = false;
        for (attempt& one : attempts_) {
            if (one.ended) continue;
            if (seen_[one.node] == sight::answered || has_had_its_time(one, now)) {
                if (one.starved && seen_[one.node] == sight::silent) seen_[one.node] = sight::unknown;
                if (one.socket) open--;
                one.socket.reset();
                one.ended = true;
                continue;
            }
            left = true;
            if (one.socket || now < one.again_ns || open >= limits_.sockets_max) continue;
            start(one, now);
            if (one.socket) open++;
        }
        return left;
    }

    bool has_had_its_time(const attempt& one, uint64_t now) const noexcept {
        return one.begin_ns != 0 && now - one.begin_ns >= in_ns(one.refused ? limits_.refused_ms : limits_.silent_ms);
    }

    void start(attempt& one, uint64_t now) {
        if (one.begin_ns == 0) one.begin_ns = now;
        const auto& address = reinterpret_cast<const sockaddr&>(one.address.bytes);
        one.socket.reset(::socket(address.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (one.socket && ::connect(one.socket.get(), &address, one.address.size_bytes) == 0) settle(one, 0, now);
        else if (!one.socket || errno != EINPROGRESS) settle(one, errno, now);
    }

    void settle(attempt& one, int os_errno, uint64_t now) {
        one.socket.reset();
        if (os_errno == 0) seen_[one.node] = sight::answered;
        if (os_errno == ECONNREFUSED || os_errno == ECONNRESET) one.refused = true;
        one.starved = os_errno == EMFILE || os_errno == ENFILE || os_errno == ENOBUFS || os_errno == ENOMEM ||
                      os_errno == EADDRNOTAVAIL || os_errno == EAGAIN;
        one.again_ns = now + in_ns(limits_.retry_ms);
    }

    void wait() {
        std::vector<pollfd> waited;
        std::vector<attempt*> waiting;
        for (attempt& one : attempts_) {
            if (!one.socket) continue;
            waited.push_back({one.socket.get(), POLLOUT, 0});
            waiting.push_back(&one);
        }
        // Short, because limits and repetitions have to be looked at, too.
        discard(::poll(waited.data(), waited.size(), 20), "the events tell");
        const uint64_t now = mono_ns();
        for (size_t i = 0; i < waited.size(); i++) {
            if (waited[i].revents == 0) continue;
            int os_errno = 0;
            socklen_t size = sizeof os_errno;
            if (::getsockopt(waited[i].fd, SOL_SOCKET, SO_ERROR, &os_errno, &size) != 0) os_errno = errno;
            settle(*waiting[i], os_errno, now);
        }
    }

    const probe_limits limits_;
    std::vector<sight> seen_;  // of each node
    std::vector<attempt> attempts_;
};

}  // namespace

std::vector<sight> look_at(const std::vector<node_facts>& nodes, uint16_t port, const probe_limits& limits) {
    return probe(nodes, port, limits).run();
}

}  // namespace varde
