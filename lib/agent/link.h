// One connection to the agent's socket: frames in, frames out, never blocking.  Main loop only.
#pragma once

#include "arena/protocol.h"
#include "base/handle.h"
#include "base/result.h"

#include <array>
#include <deque>
#include <string>
#include <sys/types.h>

namespace varde::agent {

class link {
public:
    // Takes the socket over; fails where the peer is neither `owner` nor root.
    static result<link> accept(int listening, uid_t owner);

    int fd() const noexcept { return socket_.get(); }
    pid_t peer_pid() const noexcept { return peer_pid_; }

    // Reads what is there.  unavailable: the peer has closed.
    result<void> fill();
    result<bool> next(arena::frame& out) { return frames_.next(out); }

    // Queues a frame, with file descriptors that are duplicated, and sends what goes out at once.
    void send(std::string frame, const std::array<int, 2>* fds = nullptr);
    template <class T>
    void send_message(const T& body) {
        send(arena::frame_of(body));
    }
    result<void> flush();
    bool wants_write() const noexcept { return !out_.empty(); }

    int local_rank = -1;   // once it has said hello
    bool closing = false;  // close it when everything is sent

private:
    struct outgoing {
        std::string bytes;
        size_t sent = 0;
        std::array<unique_fd, 2> fds;
    };
    unique_fd socket_;
    pid_t peer_pid_ = 0;
    arena::frame_reader frames_;
    std::deque<outgoing> out_;
};

}  // namespace varde::agent
