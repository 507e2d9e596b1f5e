// Frames: how messages are cut out of the stream and sent whole.  The payloads are in payload.cc.
//
// A frame_reader belongs to one thread; send_all may be called from any thread, one at a time per socket.
#include "arena/protocol.h"

#include "base/clock.h"
#include "base/limits.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>

namespace varde::arena {

namespace {

constexpr size_t fds_max = 2;

}  // namespace

ssize_t send_some(int socket, std::string_view bytes, std::span<const int> fds) noexcept {
    iovec part{const_cast<char*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(fds_max * sizeof(int))> control{};
    if (!fds.empty()) {
        message.msg_control = control.data();
        message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
        cmsghdr* head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
        std::memcpy(CMSG_DATA(head), fds.data(), fds.size() * sizeof(int));
    }
    return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

std::string frame_bytes(message type, std::string_view payload) {
    varde_frame_head head{};
    head.magic = VARDE_FRAME_MAGIC;
    head.version = VARDE_FRAME_VERSION;
    head.type = static_cast<uint16_t>(type);
    head.payload_bytes = payload.size();
    std::string bytes;
    bytes.reserve(sizeof head + payload.size());
    bytes.append(reinterpret_cast<const char*>(&head), sizeof head);
    bytes.append(payload);
    return bytes;
}

result<bool> frame_reader::next(frame& out) {
    varde_frame_head head{};
    const size_t have = buffer_.size() - start_;
    if (have >= sizeof head) {
        std::memcpy(&head, buffer_.data() + start_, sizeof head);
        if (head.magic != VARDE_FRAME_MAGIC)
            return fail(code::invalid, "the peer on the agent's socket does not speak Varde's protocol");
        if (head.version != VARDE_FRAME_VERSION)
            return fail(code::invalid, "the peer on the agent's socket speaks protocol version " +
                                           std::to_string(head.version) + ", this side version " +
                                           std::to_string(VARDE_FRAME_VERSION) +
                                           "; use libvarde and varde-agent of one release");
        if (head.payload_bytes > limits::message_bytes_max)
            return fail(code::invalid, "a message of " + std::to_string(head.payload_bytes) +
                                           " bytes on the agent's socket is over the limit of " +
                                           std::to_string(limits::message_bytes_max));
        if (have - sizeof head >= head.payload_bytes) {
            out.type = static_cast<message>(head.type);
            out.payload.assign(buffer_, start_ + sizeof head, head.payload_bytes);
            start_ += sizeof head + head.payload_bytes;
            return true;
        }
    }
    // Only here, so that many small frames in one buffer don't move its tail once each.
    buffer_.erase(0, start_);
    start_ = 0;
    return false;
}

result<void> send_all(int socket, std::string_view bytes, std::span<const int> fds, int timeout_ms) {
    if (fds.size() > fds_max) return fail(code::internal, "more than two file descriptors in one message");
    const auto end = deadline::in_ms(timeout_ms > 0 ? static_cast<uint64_t>(timeout_ms) : 0);
    while (!bytes.empty()) {
        const ssize_t sent = send_some(socket, bytes, fds);
        if (sent > 0) {
            bytes.remove_prefix(static_cast<size_t>(sent));
            fds = {};
            continue;
        }
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
            return os_error(errno, "couldn't send on the agent's socket");
        if (end.passed())
            return fail(code::timeout,
                        "couldn't send on the agent's socket within " + std::to_string(timeout_ms) + " ms");
        pollfd ready{socket, POLLOUT, 0};
        discard(::poll(&ready, 1, end.left_ms()),
                "every outcome means: try to send again, or see that the time is over");
    }
    return {};
}

}  // namespace varde::arena
