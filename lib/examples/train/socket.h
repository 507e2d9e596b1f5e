// A TCP socket (IPv4, enough for an example) and the few things that ranks do with one.  One
// thread.
#pragma once

#include "report.h"

#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace train {

using std::chrono::milliseconds;

class tcp_socket {
public:
    tcp_socket() = default;
    explicit tcp_socket(int fd) noexcept : fd_(fd) {}
    tcp_socket(tcp_socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    tcp_socket& operator=(tcp_socket&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~tcp_socket() {
        if (fd_ >= 0) ::close(fd_);
    }

    explicit operator bool() const noexcept { return fd_ >= 0; }
    int fd() const noexcept { return fd_; }

    // Of each later connect, accept, send and receive; 0: none.
    void set_timeout(milliseconds wait) const noexcept {
        const timeval value{wait.count() / 1000, wait.count() % 1000 * 1000};
        ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &value, sizeof(value));
        ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &value, sizeof(value));
    }
    void set_no_delay() const noexcept {
        const int on = 1;
        ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }

    sockaddr_in own_address() const noexcept { return address(&::getsockname); }
    sockaddr_in peer_address() const noexcept { return address(&::getpeername); }

    // Whole or not at all; false with errno set (0 where the peer has closed).
    bool send_all(const void* data, size_t count) const noexcept {
        const char* at = static_cast<const char*>(data);
        while (count > 0) {
            const ssize_t done = ::send(fd_, at, count, MSG_NOSIGNAL);
            if (done < 0 && errno == EINTR) continue;
            if (done < 0) return false;
            at += done;
            count -= static_cast<size_t>(done);
        }
        return true;
    }
    bool receive_all(void* data, size_t count) const noexcept {
        char* at = static_cast<char*>(data);
        while (count > 0) {
            const ssize_t done = ::recv(fd_, at, count, 0);
            if (done < 0 && errno == EINTR) continue;
            if (done == 0) errno = 0;
            if (done <= 0) return false;
            at += done;
            count -= static_cast<size_t>(done);
        }
        return true;
    }

private:
    template <class Get>
    sockaddr_in address(Get get) const noexcept {
        sockaddr_in result{};
        socklen_t size = sizeof(result);
        get(fd_, reinterpret_cast<sockaddr*>(&result), &size);
        return result;
    }
    int fd_ = -1;
};

inline sockaddr_in any_address(uint16_t port) noexcept {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    return address;
}

// Fails (with errno) where the port is taken; port 0: the kernel's choice.
inline tcp_socket listen_on(uint16_t port) noexcept {
    tcp_socket listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    const sockaddr_in address = any_address(port);
    if (!listener || ::setsockopt(listener.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        ::bind(listener.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
        ::listen(listener.fd(), SOMAXCONN) != 0)
        return {};
    return listener;
}

inline tcp_socket accept_from(const tcp_socket& listener, milliseconds wait) noexcept {
    listener.set_timeout(wait);
    return tcp_socket(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
}

inline tcp_socket connect_to(const sockaddr_in& address, milliseconds wait) noexcept {
    tcp_socket peer(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!peer) return {};
    peer.set_timeout(wait);
    if (::connect(peer.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return {};
    return peer;
}

inline bool resolve(const std::string& host, uint16_t port, sockaddr_in& ret_address) noexcept {
    addrinfo hints{};
    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
    std::memcpy(&ret_address, found->ai_addr, sizeof(ret_address));
    ret_address.sin_port = htons(port);
    ::freeaddrinfo(found);
    return true;
}

}  // namespace train
