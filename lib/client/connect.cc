// Connecting without blocking, the peer's credentials, and the handshake that brings the two memfds.
#include "client/connect.h"

#include "base/fields.h"
#include "base/limits.h"
#include "base/units.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

namespace varde::client {

namespace {

constexpr int retry_ms = 10;

// A small file of /proc, empty where it cannot be read.
std::string proc_text(const char* path) {
    const unique_fd file(::open(path, O_RDONLY | O_CLOEXEC));
    std::array<char, 256> buffer{};
    const ssize_t length = file ? ::read(file.get(), buffer.data(), buffer.size()) : -1;
    return length > 0 ? std::string(buffer.data(), static_cast<size_t>(length)) : std::string();
}

// In a user namespace, as of a rootless container, the host's root has no number and shows as the overflow user, and so
// does every stranger.  Outside there is no such user: the number is somebody's.
bool has_no_number(uid_t uid) {
    const std::string map = proc_text("/proc/self/uid_map");
    const std::string overflow = proc_text("/proc/sys/kernel/overflowuid");
    const auto ranges = split(map, '\n');
    const auto number = parse_number(std::string_view(overflow).substr(0, overflow.find('\n')));
    if (ranges.empty() || !number) return false;
    const bool everybody_has_one = split(ranges[0], ' ') == std::vector<std::string_view>{"0", "0", "4294967295"};
    return !everybody_has_one && *number == uid;
}

// The number of a socket's file that is ours and closed to others: one that we made, or that root made and gave to us,
// as the prolog does.  Nobody else can give a file away.
std::optional<ino_t> our_socket(const std::string& path) {
    struct stat about {};
    const bool ours = ::lstat(path.c_str(), &about) == 0 && S_ISSOCK(about.st_mode) && about.st_uid == ::geteuid() &&
                      (about.st_mode & (S_IRWXG | S_IRWXO)) == 0;
    return ours ? std::optional<ino_t>(about.st_ino) : std::nullopt;
}

// `before` is what our_socket() said before the connection was made.
result<void> check_peer(int socket, const std::string& path, std::optional<ino_t> before) {
    ucred peer{};
    socklen_t length = sizeof peer;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
        return os_error(errno, "couldn't ask who listens on '" + path + "'");
    if (peer.uid == ::geteuid() || peer.uid == 0) return {};
    if (before && before == our_socket(path) && has_no_number(peer.uid)) return {};
    return fail(code::io, "couldn't use the agent's socket '" + path + "': process " + std::to_string(peer.pid) +
                              " of user " + std::to_string(peer.uid) + " listens there, which is neither this user (" +
                              std::to_string(::geteuid()) +
                              ") nor root, so nothing is sent; check who made that socket");
}

failure stopped() { return fail(code::unavailable, "the connection was given up while it was being made"); }

// Waits until the socket can be read; an error when it cannot in time.
result<void> wait_readable(int socket, deadline until, int stop) {
    while (!until.passed()) {
        std::array<pollfd, 2> events{pollfd{socket, POLLIN, 0}, pollfd{stop, POLLIN, 0}};
        const int ready = ::poll(events.data(), events.size(), until.left_ms());
        if (ready < 0 && errno != EINTR) return os_error(errno, "couldn't wait for the agent");
        if (ready > 0 && events[1].revents != 0) return stopped();
        if (ready > 0 && events[0].revents != 0) return {};
    }
    return fail(code::timeout,
                "the agent did not answer hello in time; it may be waiting for the ranks of an earlier start of this "
                "job on this node to end");
}

// Reads once, with the file descriptors that came along; 0 bytes: the peer has closed.
result<size_t> receive_some(int socket, std::span<char> buffer, std::array<unique_fd, 2>& fds) {
    iovec part{buffer.data(), buffer.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t length = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (length < 0 && (errno == EAGAIN || errno == EINTR)) return fail(code::timeout, "no bytes yet");
    if (length < 0) return os_error(errno, "couldn't read the agent's answer");
    for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
        const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
            unique_fd owned(fd);
            if (i < fds.size()) fds[i] = std::move(owned);
        }
    }
    return static_cast<size_t>(length);
}

result<greeting> understand(const arena::frame& answer, std::array<unique_fd, 2>& fds) {
    if (answer.type == arena::message::refused) {
        const auto refusal = arena::decode<arena::refused>(answer.payload);
        if (!refusal) return refusal.error();
        return fail(refusal->what, refusal->text);
    }
    if (answer.type != arena::message::welcome)
        return fail(code::invalid, "the agent answered hello with a message of type " +
                                       std::to_string(static_cast<unsigned>(answer.type)));
    const auto body = arena::decode<arena::welcome>(answer.payload);
    if (!body) return body.error();
    if (!fds[0] || !fds[1]) return fail(code::invalid, "the agent's welcome came without its memory");
    greeting made;
    made.body = *body;
    made.control = std::move(fds[0]);
    made.arena = std::move(fds[1]);
    return made;
}

}  // namespace

result<unique_fd> connect_to(const std::string& path, deadline until) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path)
        return fail(code::invalid, "couldn't connect to the agent's socket '" + path + "': its path has " +
                                       std::to_string(path.size()) + " bytes, more than the " +
                                       std::to_string(sizeof address.sun_path - 1) +
                                       " that the system allows; use a shorter one");
    std::memcpy(address.sun_path, path.data(), path.size());
    const auto before = our_socket(path);
    unique_fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) return os_error(errno, "couldn't make a socket");
    while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        // EAGAIN: its queue is full, all ranks come at once; a Unix socket has no event for "try again".
        if (errno != EAGAIN && errno != EINTR)
            return os_error(errno, "couldn't connect to the agent's socket '" + path + "'");
        if (until.passed())
            return fail(code::timeout, "couldn't connect to the agent's socket '" + path +
                                           "': its queue stays full, the agent does not answer");
        discard(::poll(nullptr, 0, retry_ms), "only a pause");
    }
    if (auto known = check_peer(socket.get(), path, before); !known) return std::move(known).error();
    return socket;
}

result<greeting> shake_hands(int socket, const arena::hello& body, deadline until, int stop) {
    auto sent = arena::send_all(socket, arena::frame_of(body), {}, until.left_ms());
    if (!sent) return std::move(sent).error();
    arena::frame_reader reader;
    std::array<unique_fd, 2> fds;
    std::array<char, 4096> buffer{};
    arena::frame answer;
    for (;;) {
        auto more = reader.next(answer);
        if (!more) return std::move(more).error();
        if (*more) break;
        if (auto ready = wait_readable(socket, until, stop); !ready) return std::move(ready).error();
        const auto length = receive_some(socket, buffer, fds);
        if (!length && length.error().what == code::timeout) continue;
        if (!length) return length.error();
        if (*length == 0)
            return fail(code::unavailable, "the agent closed the connection instead of answering hello; see its log");
        reader.feed(std::string_view(buffer.data(), *length));
    }
    auto made = understand(answer, fds);
    if (made) made->rest = std::move(reader);
    return made;
}

}  // namespace varde::client
