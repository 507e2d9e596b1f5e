// How the ranks of one start of one job find each other: each tells rank 0 where it listens, and
// gets the list of all.
//
// Every greeting carries the start's token.  A rank that an earlier start of the job left behind
// doesn't know it: it is refused, or, where it sits at rank 0's port itself, asked again until it
// is gone.  Every wait here ends at one deadline; then the process ends.  One thread.
#pragma once

#include "launch.h"
#include "socket.h"

#include <thread>
#include <type_traits>
#include <vector>

namespace train {

struct neighbours {
    tcp_socket next;      // of rank + 1
    tcp_socket previous;  // of rank - 1
};

class rendezvous {
public:
    explicit rendezvous(const launch& place, milliseconds patience = milliseconds(120'000))
        : place_(place), end_(std::chrono::steady_clock::now() + patience) {}

    neighbours meet() {
        tcp_socket listener = open_listener();
        const std::vector<sockaddr_in> all = place_.rank == 0 ? collect(listener) : introduce(listener);
        neighbours ring;
        ring.next = connect_to(all[(place_.rank + 1) % place_.world], left());
        if (!ring.next || !send_greeting(ring.next, 0))
            die("rank %zu couldn't reach rank %zu: %s", place_.rank, (place_.rank + 1) % place_.world, reason());
        ring.previous = accept_previous(listener);
        for (const tcp_socket* peer : {&ring.next, &ring.previous}) {
            peer->set_timeout(milliseconds(0));
            peer->set_no_delay();
        }
        return ring;
    }

private:
    struct greeting {
        uint64_t token;
        uint32_t rank;
        uint32_t port;  // where this rank listens
    };
    static_assert(std::has_unique_object_representations_v<greeting>);
    static constexpr milliseconds greeting_wait{2000};  // for a stranger's; the others wait for it
    static constexpr milliseconds again{50};

    milliseconds left() const {
        const auto wait = std::chrono::duration_cast<milliseconds>(end_ - std::chrono::steady_clock::now());
        if (wait.count() <= 0)
            die("rank %zu of %zu didn't meet the others at %s:%u in time", place_.rank, place_.world,
                place_.host.c_str(), place_.port);
        return wait;
    }

    tcp_socket open_listener() const {
        const uint16_t port = place_.rank == 0 ? place_.port : uint16_t{0};
        for (;;) {
            tcp_socket listener = listen_on(port);
            if (listener) return listener;
            if (errno != EADDRINUSE) die("rank %zu couldn't listen on port %u: %s", place_.rank, port, reason());
            // The job's last start has not quite ended here.
            std::this_thread::sleep_for(std::min(again, left()));
        }
    }

    bool send_greeting(const tcp_socket& peer, uint16_t port) const noexcept {
        const greeting mine{place_.token, static_cast<uint32_t>(place_.rank), port};
        return peer.send_all(&mine, sizeof(mine));
    }

    // The next one that connects and knows the token.
    tcp_socket accept_friend(const tcp_socket& listener, greeting& ret_greeting) const {
        for (;;) {
            tcp_socket peer = accept_from(listener, left());
            if (!peer) continue;
            peer.set_timeout(std::min(greeting_wait, left()));
            if (peer.receive_all(&ret_greeting, sizeof(ret_greeting)) && ret_greeting.token == place_.token &&
                ret_greeting.rank < place_.world)
                return peer;
        }
    }

    tcp_socket accept_previous(const tcp_socket& listener) const {
        const size_t wanted = (place_.rank + place_.world - 1) % place_.world;
        for (;;) {
            greeting from{};
            tcp_socket peer = accept_friend(listener, from);
            if (from.rank == wanted && from.port == 0) return peer;
        }
    }

    // Rank 0's side.
    std::vector<sockaddr_in> collect(const tcp_socket& listener) const {
        std::vector<sockaddr_in> all(place_.world);
        std::vector<tcp_socket> peers(place_.world);
        all[0] = listener.own_address();
        for (size_t count = 1; count < place_.world;) {
            greeting from{};
            tcp_socket peer = accept_friend(listener, from);
            if (from.rank == 0) continue;
            if (!peers[from.rank]) count++;  // else it lost its connection and comes again
            all[from.rank] = peer.peer_address();
            all[from.rank].sin_port = htons(static_cast<uint16_t>(from.port));
            peers[from.rank] = std::move(peer);
        }
        for (size_t rank = 1; rank < place_.world; rank++)
            if (!peers[rank].send_all(&place_.token, sizeof(place_.token)) ||
                !peers[rank].send_all(all.data(), all.size() * sizeof(all[0])))
                die("rank 0 lost rank %zu before the training began: %s", rank, reason());
        return all;
    }

    // The other ranks' side.
    std::vector<sockaddr_in> introduce(const tcp_socket& listener) const {
        std::vector<sockaddr_in> all(place_.world);
        const uint16_t port = ntohs(listener.own_address().sin_port);
        for (;; std::this_thread::sleep_for(std::min(again, left()))) {
            sockaddr_in meeting_place{};
            if (!resolve(place_.host, place_.port, meeting_place)) continue;
            const tcp_socket hub = connect_to(meeting_place, left());
            if (!hub) continue;
            uint64_t token = 0;
            if (!send_greeting(hub, port) || !hub.receive_all(&token, sizeof(token)) || token != place_.token) continue;
            if (!hub.receive_all(all.data(), all.size() * sizeof(all[0]))) continue;
            // Rank 0 can't know by which of its addresses the others see it.
            all[0] = hub.peer_address();
            return all;
        }
    }

    const launch& place_;
    std::chrono::steady_clock::time_point end_;
};

}  // namespace train
