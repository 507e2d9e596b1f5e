// Messages to and from the kernel.  Their structures are copied in and out, because a byte buffer has no type.
#include "prolog/netlink.h"

#include "base/clock.h"
#include "base/handle.h"
#include "base/units.h"
#include "prolog/text_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <string_view>
#include <sys/socket.h>

namespace varde::node {

namespace {

constexpr int answer_ms = 1000;
constexpr size_t answer_bytes_max = 64 << 10;  // the kernel sends at most 32 KiB at once
constexpr uint32_t before_all_six = 1;         // metric; version 6 takes the least, and gives 1024 where none is said

constexpr size_t aligned(size_t size_bytes) { return (size_bytes + 3) & ~size_t{3}; }

template <class T>
T take(std::string_view bytes) {
    T value{};
    std::memcpy(&value, bytes.data(), std::min(sizeof value, bytes.size()));
    return value;
}

template <class T>
std::string_view as_bytes(const T& value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
}

class message {
public:
    template <class T>
    message(uint16_t type, uint16_t flags, const T& body) {
        head_.nlmsg_type = type;
        head_.nlmsg_flags = static_cast<uint16_t>(flags | NLM_F_REQUEST);
        append(as_bytes(body));
    }
    void attribute(uint16_t type, std::string_view value) {
        rtattr head{};
        head.rta_type = type;
        head.rta_len = static_cast<uint16_t>(sizeof head + value.size());
        append(as_bytes(head));
        append(value);
    }
    void attribute(uint16_t type, const ip_address& address) {
        attribute(type, as_bytes(address.bytes).substr(0, address.bits() / 8));
    }
    std::string text() const {
        nlmsghdr head = head_;
        head.nlmsg_len = static_cast<uint32_t>(sizeof head + body_.size());
        return std::string(as_bytes(head)) + body_;
    }

private:
    void append(std::string_view bytes) {
        body_ += bytes;
        body_.resize(aligned(body_.size()));
    }
    nlmsghdr head_{};
    std::string body_;
};

// One message of an answer, and what stands behind its fixed part.
struct reply {
    uint16_t type = 0;
    std::string_view body;

    template <class T>
    T fixed() const {
        return take<T>(body);
    }
    // The value of an attribute; empty where it is not there.
    std::string_view attribute(size_t fixed_bytes, uint16_t wanted) const {
        std::string_view rest = body.substr(std::min(aligned(fixed_bytes), body.size()));
        while (rest.size() >= sizeof(rtattr)) {
            const auto head = take<rtattr>(rest);
            if (head.rta_len < sizeof head || head.rta_len > rest.size()) break;
            if (head.rta_type == wanted) return rest.substr(sizeof head, head.rta_len - sizeof head);
            rest.remove_prefix(std::min(aligned(head.rta_len), rest.size()));
        }
        return {};
    }
};

// One datagram of the kernel.  true: the answer is complete.
result<bool> read_replies(std::string_view bytes, const std::function<void(const reply&)>& each) {
    while (bytes.size() >= sizeof(nlmsghdr)) {
        const auto head = take<nlmsghdr>(bytes);
        if (head.nlmsg_len < sizeof head || head.nlmsg_len > bytes.size()) break;
        const reply one{head.nlmsg_type, bytes.substr(sizeof head, head.nlmsg_len - sizeof head)};
        if (one.type == NLMSG_DONE) return true;
        if (one.type == NLMSG_ERROR) {
            const int error = -one.fixed<nlmsgerr>().error;
            if (error == 0) return true;
            return os_error(error, "the kernel's routes");
        }
        each(one);
        if ((head.nlmsg_flags & NLM_F_MULTI) == 0) return true;
        bytes.remove_prefix(std::min(aligned(head.nlmsg_len), bytes.size()));
    }
    return false;
}

result<void> ask(const message& question, const std::function<void(const reply&)>& each) {
    const unique_fd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    const std::string text = question.text();
    if (!socket || ::send(socket.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
        return os_error(errno, "couldn't ask for the kernel's routes");
    const auto until = deadline::in_ms(answer_ms);
    std::string buffer(answer_bytes_max, '\0');
    for (;;) {
        pollfd waited{socket.get(), POLLIN, 0};
        const int polled = ::poll(&waited, 1, until.left_ms());
        if (polled < 0 && errno == EINTR) continue;
        if (polled <= 0) return fail(code::timeout, "the kernel did not answer about its routes within 1 s");
        const ssize_t got = ::recv(socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (got < 0) return os_error(errno, "couldn't read the kernel's routes");
        const auto complete = read_replies(std::string_view(buffer).substr(0, static_cast<size_t>(got)), each);
        if (!complete) return complete.error();
        if (*complete) return {};
    }
}

result<void> tell(const message& order) {
    return ask(order, [](const reply&) {});
}

uint8_t family_of(const ip_address& address) { return address.six ? AF_INET6 : AF_INET; }

std::optional<ip_prefix> network_of(const reply& one) {
    const auto about = one.fixed<ifaddrmsg>();
    const std::string_view bytes = one.attribute(sizeof about, IFA_ADDRESS);
    ip_prefix found{{about.ifa_family == AF_INET6, {}}, about.ifa_prefixlen};
    if (bytes.size() != found.address.bits() / 8 || found.length_bits > found.address.bits()) return std::nullopt;
    std::memcpy(found.address.bytes.data(), bytes.data(), bytes.size());
    return found;
}

uint32_t speed_of(const std::string& name) {
    const auto text = read_text("/sys/class/net/" + name + "/speed");
    const auto speed = text ? parse_number(text->substr(0, text->find('\n')), UINT32_MAX) : result<uint64_t>(0);
    return speed ? static_cast<uint32_t>(*speed) : 0;  // "-1" where there is none
}

result<message> route_message(uint16_t type, uint16_t flags, const host_route& route) {
    const uint32_t index = ::if_nametoindex(route.interface.c_str());
    if (index == 0) return fail(code::not_found, "there is no interface '" + printable(route.interface) + "'");
    rtmsg body{};
    body.rtm_family = family_of(route.to);
    body.rtm_dst_len = static_cast<uint8_t>(route.to.bits());
    body.rtm_table = RT_TABLE_MAIN;
    body.rtm_protocol = route_protocol;
    body.rtm_scope = route.gateway || route.to.six ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK;
    body.rtm_type = RTN_UNICAST;
    message made(type, flags, body);
    made.attribute(RTA_DST, route.to);
    if (route.gateway) made.attribute(RTA_GATEWAY, *route.gateway);
    made.attribute(RTA_OIF, as_bytes(index));
    if (route.to.six) made.attribute(RTA_PRIORITY, as_bytes(before_all_six));
    return made;
}

struct neighbour {
    ip_address address;
    uint16_t state = NUD_NONE;
};

result<std::vector<neighbour>> read_neighbours(uint32_t interface_index) {
    std::vector<neighbour> found;
    const auto asked = ask(message(RTM_GETNEIGH, NLM_F_DUMP, ndmsg{}), [&](const reply& one) {
        const auto about = one.fixed<ndmsg>();
        const std::string_view bytes = one.attribute(sizeof about, NDA_DST);
        neighbour each{{about.ndm_family == AF_INET6, {}}, about.ndm_state};
        if (about.ndm_ifindex != static_cast<int>(interface_index) || bytes.size() != each.address.bits() / 8) return;
        std::memcpy(each.address.bytes.data(), bytes.data(), bytes.size());
        found.push_back(each);
    });
    if (!asked) return asked.error();
    return found;
}

// With NTF_USE the kernel asks for a neighbour that it does not know; with NUD_PROBE for one that it knows from before.
void ask_for_neighbour(uint32_t interface_index, const ip_address& address, uint16_t state, uint8_t use) {
    ndmsg body{};
    body.ndm_family = family_of(address);
    body.ndm_ifindex = static_cast<int>(interface_index);
    body.ndm_state = state;
    body.ndm_flags = use;
    message order(RTM_NEWNEIGH, static_cast<uint16_t>(NLM_F_ACK | (use != 0 ? NLM_F_CREATE : 0)), body);
    order.attribute(NDA_DST, address);
    discard(tell(order), "then it does not answer");
}

}  // namespace

std::vector<bool> answer_on(uint32_t interface_index, const std::vector<ip_address>& neighbours, int timeout_ms) {
    constexpr uint16_t silent_kinds = NUD_PERMANENT | NUD_NOARP;
    constexpr uint16_t from_before = NUD_REACHABLE | NUD_STALE | NUD_DELAY;
    std::vector<bool> answered(neighbours.size());
    const auto until = deadline::in_ms(static_cast<uint64_t>(timeout_ms));
    for (bool first = true;; first = false) {
        const auto known = read_neighbours(interface_index);
        if (!known) return answered;
        for (size_t i = 0; i < neighbours.size(); i++) {
            const auto is_it = [&](const neighbour& each) { return each.address == neighbours[i]; };
            const auto found = std::find_if(known->begin(), known->end(), is_it);
            const uint16_t state = found == known->end() ? uint16_t{NUD_NONE} : found->state;
            if ((state & silent_kinds) != 0 || (!first && (state & NUD_REACHABLE) != 0)) answered[i] = true;
            else if (!answered[i] && (state & from_before) != 0)
                ask_for_neighbour(interface_index, neighbours[i], NUD_PROBE, 0);
            else if (first) ask_for_neighbour(interface_index, neighbours[i], NUD_NONE, NTF_USE);
        }
        const bool all = std::find(answered.begin(), answered.end(), false) == answered.end();
        if (all || until.passed()) return answered;
        ::usleep(5'000);
    }
}

result<interface_facts> read_interface(const std::string& name) {
    interface_facts found;
    found.index = ::if_nametoindex(name.c_str());
    if (found.index == 0) return fail(code::not_found, "there is no interface '" + printable(name) + "'");
    ifinfomsg link{};
    link.ifi_index = static_cast<int>(found.index);
    auto asked = ask(message(RTM_GETLINK, 0, link), [&](const reply& one) {
        const auto about = one.fixed<ifinfomsg>();
        const uint32_t both = IFF_UP | IFF_RUNNING;
        found.up = (about.ifi_flags & both) == both;
        found.mtu_bytes = take<uint32_t>(one.attribute(sizeof about, IFLA_MTU));
    });
    if (!asked) return std::move(asked).error();
    asked = ask(message(RTM_GETADDR, NLM_F_DUMP, ifaddrmsg{}), [&](const reply& one) {
        const auto network = network_of(one);
        if (network && one.fixed<ifaddrmsg>().ifa_index == found.index) found.addresses.push_back(*network);
    });
    if (!asked) return std::move(asked).error();
    found.speed_mbps = speed_of(name);
    return found;
}

result<std::string> find_way(const ip_address& to) {
    rtmsg body{};
    body.rtm_family = family_of(to);
    body.rtm_dst_len = static_cast<uint8_t>(to.bits());
    message question(RTM_GETROUTE, 0, body);
    question.attribute(RTA_DST, to);
    uint32_t index = 0;
    const auto asked = ask(question, [&](const reply& one) {
        const auto about = one.fixed<rtmsg>();
        if (about.rtm_type == RTN_UNICAST || about.rtm_type == RTN_LOCAL)
            index = take<uint32_t>(one.attribute(sizeof about, RTA_OIF));
    });
    // So it says that there is none, or that the way is closed: `unreachable`, `prohibit`, `blackhole`.
    constexpr int none[] = {ENETUNREACH, EHOSTUNREACH, EACCES, EINVAL};
    if (!asked && std::find(std::begin(none), std::end(none), asked.error().os_errno) == std::end(none))
        return asked.error();
    std::array<char, IF_NAMESIZE> name{};
    if (index == 0 || ::if_indextoname(index, name.data()) == nullptr)
        return fail(code::not_found, "no route leads to " + format_address(to));
    return std::string(name.data());
}

result<void> add_route(const host_route& route) {
    // NLM_F_CREATE alone puts it in front of equal ones (`ip route prepend`).
    const auto order = route_message(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_ACK, route);
    if (!order) return order.error();
    auto added = tell(*order);
    if (added || added.error().os_errno == EEXIST) return {};
    return fail(added.error().what, "couldn't add a route to " + format_address(route.to) + " over '" +
                                        route.interface + "': " + added.error().context);
}

result<void> remove_route(const host_route& route) {
    const auto order = route_message(RTM_DELROUTE, NLM_F_ACK, route);
    if (!order) return order.error().what == code::not_found ? result<void>() : order.error();
    auto removed = tell(*order);
    if (removed || removed.error().os_errno == ESRCH) return {};
    return fail(removed.error().what, "couldn't remove the route to " + format_address(route.to) + " over '" +
                                          route.interface + "': " + removed.error().context);
}

}  // namespace varde::node
