// The way to the storage servers: what is said of it, routes in a network of the test's own, and who holds them.
#include "prolog/route_ledger.h"
#include "prolog/storage_network.h"
#include "prolog_setup_support.h"

#include <sched.h>
#include <sys/file.h>
#include <sys/prctl.h>

using namespace setup_test;

TestSuite(network, .init = setup, .fini = teardown, .timeout = 60);

static ip_address address(const char* text) { return *parse_address(text); }
static const char* const server = "10.77.1.250";

static storage_settings site_of(storage_policy policy) {
    storage_settings site;
    site.interface = "storage";
    site.policy = policy;
    site.subnet = parse_prefix("10.77.1.0/24").value();
    return site;
}

static network_view view_of(const char* way) {
    network_view view;
    view.mount = mount_entry{1, 0, "/flash", "nfs4", "10.77.1.250:/", "rw"};
    view.remote = true;
    view.servers = {address(server)};
    view.ways = {std::string(way)};
    view.interface = interface_facts{3, true, 9000, 200'000, {{address("10.77.1.7"), 24}}};
    return view;
}

static void expect_text(const std::string& text, std::initializer_list<const char*> parts) {
    cr_assert(parts.size() > 0 || text.empty(), "%s", text.c_str());
    cr_assert_eq(text.find('\n'), std::string::npos);
    for (const char* part : parts) cr_assert(text.find(part) != std::string::npos, "'%s': '%s'", text.c_str(), part);
}

Test(network, what_is_right_is_not_said) {
    const auto site = site_of(storage_policy::check);
    expect_text(describe_network(site, view_of("storage")), {});
    expect_text(describe_network(site, view_of("lo")), {});
    auto local = view_of("compute");
    local.remote = false;
    expect_text(describe_network(site, local), {});
    expect_text(describe_network(storage_settings{}, view_of("compute")), {});
}

Test(network, what_is_wrong_is_said_in_one_line) {
    auto site = site_of(storage_policy::check);
    auto view = view_of("compute");
    expect_text(describe_network(site, view),
                {"server 10.77.1.250 of '/flash' (nfs4) is reached over 'compute', not over 'storage'"});
    view.servers.push_back(address("10.77.1.251"));
    view.ways.push_back(fail(code::not_found, "no route leads to 10.77.1.251"));
    expect_text(describe_network(site, view), {"'compute'", "; the same holds for 1 more"});
    view = view_of("compute");
    view.ways = {fail(code::not_found, "no route leads to 10.77.1.250")};
    expect_text(describe_network(site, view), {"server 10.77.1.250 of '/flash' (nfs4) no route leads"});
    view = view_of("storage");
    view.servers.clear();
    view.ways.clear();
    expect_text(describe_network(site, view), {"names no server", "storage.targets"});
    view.unknown = {"filer\x1b"};
    expect_text(describe_network(site, view), {"server 'filer?' of '/flash' (nfs4) has no address"});
    view = view_of("storage");
    view.interface->up = false;
    site.mtu_min_bytes = 9001;
    site.speed_min_mbps = 400'000;
    expect_text(describe_network(site, view),
                {"'storage' is down; ", "an MTU of 9000, less than 9001; ", "at 200000 Mbit/s, less than 400000"});
    view.interface->speed_mbps = 0;
    view.interface->up = true;
    site.mtu_min_bytes = 0;
    expect_text(describe_network(site, view), {});
    view.interface.reset();
    expect_text(describe_network(site, view), {"there is no interface 'storage'"});
}

Test(network, routes_stay_within_what_the_site_allows) {
    auto site = site_of(storage_policy::route);
    expect_text(why_no_route(site, view_of("compute"), address(server)), {});
    expect_text(why_no_route(site, view_of("compute"), address("10.77.0.250")), {"outside storage.subnet"});
    expect_text(why_no_route(site, view_of("compute"), address("fd00::1")), {"outside storage.subnet"});
    auto view = view_of("compute");
    view.by_user = true;
    expect_text(why_no_route(site, view, address(server)), {"a user has mounted '/flash'"});
    view = view_of("compute");
    view.interface->up = false;
    expect_text(why_no_route(site, view, address(server)), {"'storage' is not up"});
    view.interface.reset();
    expect_text(why_no_route(site, view, address(server)), {"'storage' is not up"});
    view = view_of("compute");
    view.interface->addresses = {{address("10.77.2.7"), 24}};
    expect_text(why_no_route(site, view, address(server)), {"10.77.1.250 is on no network of 'storage'", "gateway"});
    site.gateway = address("10.77.2.1");
    expect_text(why_no_route(site, view, address(server)), {});
    site.gateway = address("10.77.3.1");
    expect_text(why_no_route(site, view, address(server)), {"10.77.3.1 is on no network of 'storage'"});
}

// ---- A network of the test's own: compute 10.77.0.7/24, storage 10.77.1.7/24, and their version 6 cousins.  At the
// other end is a machine that has the servers' addresses on both.

static void ip(const std::string& what) { cr_assert_eq(std::system(("ip " + what).c_str()), 0, "ip %s", what.c_str()); }

static std::string far_end;  // "nsenter --net=... "
static void far_ip(const std::string& what) {
    cr_assert_eq(std::system((far_end + "ip " + what).c_str()), 0, "ip %s", what.c_str());
}

static std::string network_of(pid_t pid) {
    return std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/ns/net").string();
}

static void own_network() {
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

static std::string routes() {
    std::string text;
    FILE* shown = ::popen("ip route show proto 118; ip -6 route show proto 118", "r");
    for (int c = 0; (c = std::fgetc(shown)) != EOF;) text += static_cast<char>(c);
    ::pclose(shown);
    return text;
}

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

// ---- The whole, on a mount that names its server only to who reads the target's line

static request job_here() {
    request job = *asked();
    job.wish.directory = folder + "/flash";
    return job;
}

static void configure(const std::string& keys) {
    write_text(where.config,
               "prolog: {ready_ms: 20000}\nstorage: {interface: storage, targets: " + folder + "/flash " + server +
                   ", " + keys + "}\n",
               0644);
    ::mkdir((folder + "/flash").c_str(), 0777);
    ::chmod((folder + "/flash").c_str(), 0777);
    agent_script("echo ready >&4; exec sleep 60");
}

Test(network, check_reports_and_the_agent_runs) {
    AS_ROOT();
    own_network();
    configure("policy: check");
    state made = set_up(job_here(), job_id, where);
    cr_assert(made.ready && made.storage.problem.empty(), "%s%s", made.reason.c_str(), made.storage.problem.c_str());
    cr_assert(made.storage.servers == (std::vector<storage_server>{{server, "storage"}}));
    cr_assert_eq(made.storage.mtu_bytes, 4000);
    expect_text(describe_storage(made.storage), {"of 10.77.1.250 over 'storage'"});
    cr_assert(end_job(where.run_directory, job_id, 1000).has_value());
    ip("route add 10.77.1.250 dev compute");
    made = set_up(job_here(), job_id, where);
    cr_assert(made.ready);
    expect_text(describe_storage(made.storage), {"is reached over 'compute', not over 'storage'", "the job starts"});
    const auto directory = job_directory::open(where.run_directory, job_id);
    cr_assert(*read_state(*directory) == made);
    cr_assert(routes().empty());
}

Test(network, require_degrades_and_says_so) {
    AS_ROOT();
    own_network();
    configure("policy: require");
    cr_assert(set_up(job_here(), job_id, where).ready);
    cr_assert(end_job(where.run_directory, job_id, 1000).has_value());
    ip("route add 10.77.1.250 dev compute");
    const state made = set_up(job_here(), job_id, where);
    expect_degraded(made, "storage.policy is 'require', and server 10.77.1.250");
    expect_text(made.reason, {"reached over 'compute'", "without the prolog's agent"});
    cr_assert(made.agent_pid == 0 && !exists(job_path() + "/agent.sock"));
}

Test(network, route_puts_it_right_and_the_epilog_takes_it_away) {
    AS_ROOT();
    own_network();
    configure("policy: route, subnet: 10.77.1.0/24");
    ip("route add 10.77.1.250 dev compute");
    const state made = set_up(job_here(), job_id, where);
    cr_assert(made.ready && made.storage.problem.empty(), "%s", made.storage.problem.c_str());
    cr_assert(made.storage.servers == (std::vector<storage_server>{{server, "storage"}}));
    cr_assert(*find_way(address(server)) == "storage");
    cr_assert(end_job(where.run_directory, job_id, 1000).has_value());
    cr_assert(*find_way(address(server)) == "compute" && routes().empty());
    // A rule of the host's that no route in the main table beats.
    ip("route add 10.77.1.250 dev compute table 99");
    ip("rule add to 10.77.1.250 lookup 99");
    expect_text(set_up(job_here(), job_id, where).storage.problem, {"is reached over 'compute'"});
    cr_assert(end_job(where.run_directory, job_id, 1000).has_value() && routes().empty());
    ip("rule del to 10.77.1.250 lookup 99");
    far_ip("address del 10.77.1.250/24 dev storage");
    expect_text(set_up(job_here(), job_id, where).storage.problem,
                {"is reached over 'compute'", "10.77.1.250 does not answer on 'storage'"});
    cr_assert(end_job(where.run_directory, job_id, 1000).has_value() && routes().empty());
    far_ip("link set storage down");
    expect_text(set_up(job_here(), job_id, where).storage.problem,
                {"is reached over 'compute'", "'storage' is down", "no route to 10.77.1.250 is added"});
}
