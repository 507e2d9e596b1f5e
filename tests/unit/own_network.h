// A network of the test's own: compute 10.77.0.7/24, storage 10.77.1.7/24, and their version 6 cousins.  At the other
// end is a machine that has the servers' addresses on storage.  As root only.
#pragma once

#include "base/ip_address.h"

#include <criterion/criterion.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sched.h>
#include <string>
#include <sys/prctl.h>
#include <unistd.h>

namespace network_test {

using namespace varde;

inline ip_address address(const char* text) { return *parse_address(text); }
inline constexpr const char* server = "10.77.1.250";

inline void ip(const std::string& what) { cr_assert_eq(std::system(("ip " + what).c_str()), 0, "ip %s", what.c_str()); }

inline std::string far_end;  // "nsenter --net=... "
inline void far_ip(const std::string& what) {
    cr_assert_eq(std::system((far_end + "ip " + what).c_str()), 0, "ip %s", what.c_str());
}

inline std::string network_of(pid_t pid) {
    return std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/ns/net").string();
}

inline void own_network() {
    cr_assert_eq(::unshare(CLONE_NEWNET), 0);
    const pid_t machine = ::fork();
    if (machine == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)!::unshare(CLONE_NEWNET);
        ::pause();
        ::_exit(0);
    }
    const std::string id = std::to_string(machine);
    far_end = "nsenter --net=/proc/" + id + "/ns/net ";
    while (network_of(machine) == network_of(::getpid())) ::usleep(1'000);
    ip("link set lo up");
    int number = 0;
    for (const std::string name : {"compute", "storage"}) {
        const std::string net = std::to_string(number++);
        ip("link add " + name + " type veth peer name " + name + " netns " + id);
        for (const auto& call : {ip, far_ip}) call("link set " + name + " up mtu 4000");
        ip("address add 10.77." + net + ".7/24 dev " + name);
        ip("address add fd00:77:" + net + "::7/64 dev " + name + " nodad");
        far_ip("address add 10.77." + net + ".1/24 dev " + name);
    }
    far_ip("address add 10.77.1.250/24 dev storage");
    far_ip("address add fd00:77:1::250/64 dev storage nodad");
}

inline std::string routes() {
    std::string text;
    FILE* shown = ::popen("ip route show proto 118; ip -6 route show proto 118", "r");
    for (int c = 0; (c = std::fgetc(shown)) != EOF;) text += static_cast<char>(c);
    ::pclose(shown);
    return text;
}

}  // namespace network_test
