// The kernel's routes and interfaces, by rtnetlink: which way a packet would take, and one host route of our own.
// Every question opens a socket, asks one thing and waits 1 s at most.  Any thread.
#pragma once

#include "base/ip_address.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace varde::node {

struct interface_facts {
    uint32_t index = 0;
    bool up = false;  // switched on, and its link is there
    uint32_t mtu_bytes = 0;
    uint32_t speed_mbps = 0;           // 0: the interface has no notion of it
    std::vector<ip_prefix> addresses;  // each as the network that it lies in
};

// not_found: there is no such interface.
result<interface_facts> read_interface(const std::string& name);

// The name of the interface that leads there; "lo" for an address of this machine.  not_found: no route does.
result<std::string> find_way(const ip_address& to);

// Which of these neighbours answer on the interface, each now and not some time ago: their hardware addresses are asked
// for once more (ARP, neighbour discovery).  Waits `timeout_ms` at most for all of them.
std::vector<bool> answer_on(uint32_t interface_index, const std::vector<ip_address>& neighbours, int timeout_ms);

// A route to one address.
struct host_route {
    ip_address to;
    std::string interface;
    std::optional<ip_address> gateway;

    bool operator==(const host_route&) const = default;
};

// What our routes have in common in the kernel's table (`ip route` shows "proto 118"); no other program's have it.
constexpr uint8_t route_protocol = 118;

// Before every other route to the address.  One that is there already is no failure.
result<void> add_route(const host_route& route);

// Exactly this one, and only with our protocol.  One that is gone, with its interface for instance, is no failure.
result<void> remove_route(const host_route& route);

}  // namespace varde::node
