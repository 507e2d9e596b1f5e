// The controller hook's look at nodes: who answers, who is silent, and whom nobody can tell of.
#include "prolog_nodes.h"

#include "base/clock.h"
#include "base/resolve.h"
#include "forbid.h"
#include "mounts.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <net/if.h>
#include <sched.h>
#include <string>
#include <sys/ioctl.h>

using namespace varde;
using namespace controller_test;
using sights = std::vector<sight>;

Test(probe, tells_answering_refusing_and_silent_nodes, .timeout = 10) {
    const node_socket good(false);
    const node_socket silent(true);
    node_socket refusing(false);
    refusing.refuse();
    cr_assert(look_at({good.facts("good")}, 1, {.silent_ms = 100'000'000}) == sights{sight::answered},
              "who answers is not waited for");
    const uint64_t start = mono_ns();
    cr_assert(look_at({silent.facts("silent"), good.facts("good"), refusing.facts("refusing")}, 1, quick) ==
              (sights{sight::silent, sight::answered, sight::silent}));
    cr_assert_geq((mono_ns() - start) / ns_per_ms, 800, "who refuses has longer");
    cr_assert(look_at({}, 1, quick).empty());
    cr_assert(look_at({{"x", "no such host.invalid", "", 0, ""}}, 1, quick) == sights{sight::unknown},
              "a name that does not resolve is no sign of death, and none of life");
}

// With sanitizers this meets a look-up that writes where its caller has been.
Test(probe, looks_up_many_names_time_after_time, .timeout = 30) {
    for (int round = 0; round < 300; round++) {
        std::vector<node_facts> nodes(2 + static_cast<size_t>(round) % 20, {"here", "127.0.0.1", "", 7, ""});
        nodes.push_back({"x", "no such host.invalid", "", 7, ""});
        const auto found = resolve(nodes, 9, 10'000);
        cr_assert_eq(found.size(), nodes.size());
        cr_assert(found.back().empty());
        for (size_t i = 0; i + 1 < found.size(); i++) {
            cr_assert_eq(found[i].size(), 1);
            sockaddr_in address{};
            std::memcpy(&address, &found[i][0].bytes, sizeof address);
            cr_assert(address.sin_addr.s_addr == ::htonl(INADDR_LOOPBACK) && address.sin_port == ::htons(7));
        }
    }
}

Test(probe, a_resolver_that_takes_too_long_is_left_behind) {
    const std::vector<node_facts> nodes(40, {"here", "127.0.0.1", "", 7, ""});
    for (int round = 0; round < 100; round++) cr_assert_eq(resolve(nodes, 9, 0).size(), nodes.size());
}

static void replace_file(const char* path, const std::string& text) {
    cr_assert_eq(::geteuid(), 0, "this test needs root");
    test::own_mounts();
    test::replace_file(path, text);
}

// Nobody listens on the other one.
Test(probe, a_node_that_answers_on_one_of_its_addresses_is_alive, .timeout = 20) {
    const node_socket node(false);
    replace_file("/etc/hosts",
                 "127.0.0.1 here-first\n127.0.0.9 here-first\n127.0.0.9 there-first\n127.0.0.1 there-first\n");
    for (const char* name : {"here-first", "there-first"})
        cr_assert(look_at({{"x", name, "", node.port, ""}}, 1, quick) == sights{sight::answered}, "%s", name);
}

Test(probe, has_few_sockets_at_a_time, .timeout = 30) {
    const node_socket good(false);
    const node_socket silent(true);
    std::vector<node_facts> nodes(6, silent.facts("silent"));
    nodes.push_back(good.facts("good"));
    probe_limits few = quick;
    few.sockets_max = 2;
    const uint64_t start = mono_ns();
    sights expected(6, sight::silent);
    expected.push_back(sight::answered);
    cr_assert(look_at(nodes, 1, few) == expected);
    cr_assert_geq((mono_ns() - start) / ns_per_ms, 900, "three rounds of two");
}

Test(probe, a_node_that_no_socket_was_left_for_is_unknown, .timeout = 20) {
    const node_socket silent(true);
    cr_assert(test::forbid_with(SYS_socket, 0, AF_INET, EMFILE));
    cr_assert(look_at({silent.facts("silent")}, 1, quick) == sights{sight::unknown});
}

// A name server that says nothing, in a network of the test's own.
Test(probe, a_name_server_that_hangs_does_not_hold_up_the_others, .timeout = 60) {
    cr_assert_eq(::unshare(CLONE_NEWNET), 0);
    ifreq loopback{};
    std::string("lo").copy(loopback.ifr_name, IFNAMSIZ - 1);
    loopback.ifr_flags = IFF_UP;
    const int control = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(::ioctl(control, SIOCSIFFLAGS, &loopback), 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    address.sin_port = ::htons(53);
    cr_assert_eq(::bind(control, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    replace_file("/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:30 attempts:4\n");
    const node_socket good(false);
    probe_limits soon = quick;
    soon.resolve_ms = 300;
    const uint64_t start = mono_ns();
    cr_assert(look_at({{"x", "node7.cluster.example", "", 0, ""}, good.facts("good")}, 1, soon) ==
              (sights{sight::unknown, sight::answered}));
    cr_assert_lt((mono_ns() - start) / ns_per_s, 25, "the C library itself would wait for 30 s and more");
}

Test(probe, a_slurmd_that_comes_back_in_time_is_alive, .timeout = 10) {
    node_socket node(false);
    const node_facts facts = node.facts("node");
    node.refuse();
    const pid_t child = ::fork();
    if (child == 0) {
        ::usleep(300'000);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
        address.sin_port = ::htons(facts.port);
        const int on = 1;
        const int again = ::socket(AF_INET, SOCK_STREAM, 0);
        ::setsockopt(again, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        (void)!::bind(again, reinterpret_cast<sockaddr*>(&address), sizeof address);
        ::listen(again, 4);
        ::usleep(1'500'000);
        ::_exit(0);
    }
    cr_assert(look_at({facts}, 1, quick) == sights{sight::answered});
}
