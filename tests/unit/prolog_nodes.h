// Nodes of a cluster played by sockets of this machine: one that answers, one that refuses, one that says nothing.
#pragma once

#include "base/slurmd_probe.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace controller_test {

using namespace varde;

struct node_socket {
    int listener = -1;
    uint16_t port = 0;
    std::vector<int> fillers;

    explicit node_socket(bool silent) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        cr_assert_eq(::bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
        cr_assert_eq(::listen(listener, silent ? 0 : 16), 0);
        cr_assert_eq(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
        port = ::ntohs(address.sin_port);
        // A full backlog drops what comes, as a dead host does.
        for (int i = 0; silent && i < 4; i++) {
            fillers.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
            (void)!::connect(fillers.back(), reinterpret_cast<sockaddr*>(&address), size);
        }
        ::usleep(20'000);
    }
    void refuse() { ::close(listener); }
    node_facts facts(const char* name) const { return {name, "127.0.0.1", "ALLOCATED", port, ""}; }
};

inline constexpr probe_limits quick{.silent_ms = 300, .refused_ms = 800, .retry_ms = 50};

}  // namespace controller_test
