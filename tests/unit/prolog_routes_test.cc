// The kernel's routes, ours among them, and the ledger of who needs them.
#include "own_network.h"
#include "prolog/netlink.h"
#include "prolog/route_ledger.h"
#include "prolog_setup_support.h"

#include <sys/file.h>

using namespace setup_test;
using namespace network_test;

TestSuite(network, .init = setup, .fini = teardown, .timeout = 60);

Test(network, the_kernel_says_which_way_it_takes) {
    AS_ROOT();
    own_network();
    cr_assert(*find_way(address("10.77.0.9")) == "compute" && *find_way(address("10.77.1.9")) == "storage");
    cr_assert(*find_way(address("fd00:77:1::9")) == "storage" && *find_way(address("10.77.1.7")) == "lo");
    for (const char* none : {"192.0.2.1", "2001:db8::1"}) {
        const auto way = find_way(address(none));
        cr_assert(!way.has_value() && way.error().what == code::not_found, "%s", none);
    }
    ip("route add unreachable 10.88.0.0/16");
    ip("route add blackhole 10.89.0.0/16");
    cr_assert(find_way(address("10.88.0.1")).error().what == code::not_found);
    cr_assert(find_way(address("10.89.0.1")).error().what == code::not_found);
    ip("route add default via 10.77.0.1");
    cr_assert(*find_way(address("192.0.2.1")) == "compute");
    const auto facts = read_interface("storage");
    cr_assert(facts.has_value() && facts->up && facts->mtu_bytes == 4000);
    cr_assert(std::any_of(facts->addresses.begin(), facts->addresses.end(),
                          [](const ip_prefix& each) { return each.contains(address("10.77.1.200")); }));
    cr_assert(std::none_of(facts->addresses.begin(), facts->addresses.end(),
                           [](const ip_prefix& each) { return each.contains(address("10.77.0.7")); }));
    far_ip("link set storage down");
    cr_assert(!read_interface("storage")->up, "its link is gone");
    cr_assert(read_interface("nosuch").error().what == code::not_found);
}

Test(network, a_route_of_ours_goes_before_others_and_goes_alone) {
    AS_ROOT();
    own_network();
    for (const char* to : {server, "fd00:77:1::250"}) {
        const std::string wrong = std::string(to) + " dev compute";
        ip("route add " + wrong);
        const host_route route{address(to), "storage", {}};
        cr_assert(*find_way(route.to) == "compute");
        for (int twice = 0; twice < 2; twice++) {
            const auto added = add_route(route);
            cr_assert(added.has_value(), "%s", added.has_value() ? "" : added.error().context.c_str());
            cr_assert(*find_way(route.to) == "storage");
        }
        for (int twice = 0; twice < 2; twice++) {
            cr_assert(remove_route(route).has_value());
            cr_assert(*find_way(route.to) == "compute", "the one that was there is there still");
        }
        // The same route, of somebody else.
        ip("route del " + wrong);
        ip("route add " + std::string(to) + " dev storage metric 1");
        cr_assert(remove_route(route).has_value() && *find_way(route.to) == "storage");
    }
    const host_route far{address("10.78.0.1"), "storage", address("10.77.1.1")};
    cr_assert(add_route(far).has_value() && *find_way(far.to) == "storage");
    cr_assert(routes().find("10.78.0.1 via 10.77.1.1 dev storage") != std::string::npos, "%s", routes().c_str());
    cr_assert(remove_route(far).has_value() && !find_way(far.to).has_value() && routes().empty());
    const host_route nowhere{address(server), "nosuch", {}};
    cr_assert(add_route(nowhere).error().what == code::not_found && remove_route(nowhere).has_value());
    cr_assert(!add_route({address("10.79.0.1"), "storage", address("10.80.0.1")}).has_value(), "no way to the gateway");
}

Test(network, a_neighbour_answers_now_or_not) {
    AS_ROOT();
    own_network();
    const uint32_t storage = read_interface("storage")->index;
    const uint32_t compute = read_interface("compute")->index;
    const std::vector<ip_address> there{address(server), address("fd00:77:1::250")};
    const std::vector<bool> both{true, true};
    // The second time the kernel knows them from before.
    for (int twice = 0; twice < 2; twice++) cr_assert(answer_on(storage, there, 10'000) == both);
    cr_assert(answer_on(storage, {address(server), address("10.77.1.251")}, 500) == (std::vector<bool>{true, false}));
    cr_assert(answer_on(compute, {address(server)}, 10'000).front(), "a machine answers for all its addresses");
    far_ip("address del 10.77.1.250/24 dev storage");
    cr_assert(answer_on(storage, there, 500) == (std::vector<bool>{false, true}), "what was heard before is no answer");
    cr_assert(answer_on(storage, {}, 0).empty());
}

// ---- The ledger

static void begin_job(uint32_t job) {
    ::mkdir(where.run_directory.c_str(), 0755);
    cr_assert_eq(::mkdir((where.run_directory + "/" + std::to_string(job)).c_str(), 0755), 0);
}
static void end_job_directory(uint32_t job) {
    cr_assert_eq(::rmdir((where.run_directory + "/" + std::to_string(job)).c_str()), 0);
}
static std::string ledger_text() { return read_text(where.run_directory + "/routes"); }

Test(network, the_last_job_takes_the_route_away) {
    AS_ROOT();
    own_network();
    ip("route add 10.77.1.250 dev compute");
    const host_route route{address(server), "storage", {}};
    const auto& run = where.run_directory;
    begin_job(7);
    begin_job(9);
    cr_assert(hold_routes(run, 7, {{route, true}}).has_value() && *find_way(route.to) == "storage");
    cr_assert(hold_routes(run, 7, {{route, true}}).has_value(), "a requeue");
    // It is right now, because of job 7; job 9 needs it all the same.
    cr_assert(hold_routes(run, 9, {{route, false}}).has_value());
    cr_assert(ledger_text() == "10.77.1.250 storage - 7 9\n", "%s", ledger_text().c_str());
    cr_assert(release_routes(run, 7).has_value() && *find_way(route.to) == "storage");
    for (int twice = 0; twice < 2; twice++) {
        cr_assert(release_routes(run, 9).has_value() && *find_way(route.to) == "compute");
        cr_assert(ledger_text().empty() && routes().empty());
    }
    cr_assert(hold_routes(run, 9, {{route, false}}).has_value() && ledger_text().empty(), "nobody needs ours");
    struct stat about {};
    cr_assert(::stat((run + "/routes.lock").c_str(), &about) == 0 && (about.st_mode & 0777) == 0600);
}

Test(network, a_job_that_is_gone_without_an_epilog_counts_no_more) {
    AS_ROOT();
    own_network();
    const host_route route{address(server), "storage", {}};
    const host_route other{address("10.77.1.251"), "storage", {}};
    begin_job(7);
    cr_assert(hold_routes(where.run_directory, 7, {{route, true}}).has_value());
    end_job_directory(7);
    begin_job(9);
    cr_assert(hold_routes(where.run_directory, 9, {{other, true}}).has_value());
    cr_assert(ledger_text() == "10.77.1.251 storage - 9\n", "%s", ledger_text().c_str());
    cr_assert(routes().find(server) == std::string::npos, "%s", routes().c_str());
}

// Prologs and epilogs of one node at the same moment: while a job holds the route, it is there.
Test(network, many_jobs_at_once_never_lose_the_route) {
    AS_ROOT();
    own_network();
    ip("route add 10.77.1.250 dev compute");
    const host_route route{address(server), "storage", {}};
    begin_job(1);
    std::vector<pid_t> children;
    for (uint32_t job = 10; job < 18; job++) {
        const pid_t child = ::fork();
        if (child != 0) {
            children.push_back(child);
            continue;
        }
        for (int round = 0; round < 20; round++) {
            begin_job(job);
            const bool held = hold_routes(where.run_directory, job, {{route, true}}).has_value();
            const auto way = find_way(route.to);
            const bool released = release_routes(where.run_directory, job).has_value();
            end_job_directory(job);
            if (!held || !way || *way != "storage" || !released) ::_exit(1);
        }
        ::_exit(0);
    }
    for (const pid_t child : children) {
        int status = 0;
        cr_assert(::waitpid(child, &status, 0) == child && status == 0, "status %d", status);
    }
    cr_assert(*find_way(route.to) == "compute" && routes().empty() && ledger_text().empty());
}

// Killed between note and route, or the kernel refuses.
Test(network, a_route_is_noted_before_it_is_there) {
    AS_ROOT();
    own_network();
    const host_route route{address(server), "storage", {}};
    begin_job(7);
    const route_calls deaf{[](const host_route&) { return result<void>(fail(code::io, "no")); },
                           [](const host_route&) { return result<void>(fail(code::io, "no")); }};
    cr_assert(!hold_routes(where.run_directory, 7, {{route, true}}, deaf).has_value());
    cr_assert(ledger_text() == "10.77.1.250 storage - 7\n");
    cr_assert(!release_routes(where.run_directory, 7, deaf).has_value());
    cr_assert(ledger_text() == "10.77.1.250 storage -\n", "kept, for the next to try again");
    cr_assert(release_routes(where.run_directory, 9).has_value() && ledger_text().empty());
}

Test(network, a_lock_that_is_held_and_a_ledger_that_is_damaged_are_errors) {
    AS_ROOT();
    own_network();
    const host_route route{address(server), "storage", {}};
    begin_job(7);
    cr_assert(hold_routes(where.run_directory, 7, {{route, true}}).has_value());
    const unique_fd held(::open((where.run_directory + "/routes.lock").c_str(), O_RDWR | O_CLOEXEC));
    cr_assert_eq(::flock(held.get(), LOCK_EX), 0);
    const auto locked = hold_routes(where.run_directory, 9, {{route, true}});
    cr_assert(!locked.has_value() && locked.error().what == code::timeout);
    cr_assert_eq(::flock(held.get(), LOCK_UN), 0);
    for (const char* bad : {"10.77.1.250 storage\n", "10.77.1.250 storage - 7", "x storage - 7\n",
                            "10.77.1.250 storage y 7\n", "10.77.1.250 storage - -7\n", "\n"}) {
        write_text(where.run_directory + "/routes", bad, 0644);
        const auto released = release_routes(where.run_directory, 7);
        cr_assert(!released.has_value() &&
                  released.error().context.find("ip route show proto 118") != std::string::npos);
    }
    const std::vector<noted_route> two{{route, {7, 9}}, {{address("fd00::1"), "ib0", address("fd00::2")}, {}}};
    cr_assert(*decode_routes(encode_routes(two)) == two);
}
