// The way to the storage servers: what is said of it, and what the policies make of it.
#include "mounts.h"
#include "own_network.h"
#include "prolog/storage_network.h"
#include "prolog_setup_support.h"

#include <arpa/inet.h>
#include <netinet/in.h>

using namespace setup_test;
using namespace network_test;

TestSuite(network, .init = setup, .fini = teardown, .timeout = 60);

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

Test(network, what_is_found_is_one_line) {
    storage_facts facts{"/flash", "nfs4", {{server, "ib0"}, {"10.77.2.1", ""}}, 0, 0, ""};
    cr_assert(describe_storage(facts) ==
              "storage network: '/flash' (nfs4) of 10.77.1.250 over 'ib0' of 10.77.2.1, to which no route leads");
    facts.servers.clear();
    expect_text(describe_storage(facts), {});
    facts.problem = "something is wrong";
    expect_text(describe_storage(facts), {"storage network: something is wrong; the job starts", "storage.policy"});
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

// ---- Names, links, users: what the host's own words come to

Test(network, a_link_is_followed_by_the_user_alone) {
    AS_ROOT();
    own_network();
    varde::test::own_mounts();
    configure("policy: check");
    const varde::test::scoped_mount flash("tmpfs", folder + "/flash", "mode=1777");
    cr_assert_eq(::symlink("flash", (folder + "/scratch").c_str()), 0);
    request job = job_here();
    job.wish.directory = folder + "/scratch/a";
    const state made = set_up(job, job_id, where);
    cr_assert(made.directory == job.wish.directory && made.storage.mount == folder + "/flash" &&
              made.storage.servers.size() == 1);
}

static state set_up_on(const char* source, uid_t owner, const std::string& hosts) {
    varde::test::own_mounts();
    configure("policy: route, subnet: 10.77.1.0/24");
    write_text(where.config,
               "prolog: {ready_ms: 20000, probe_s: 1}\n"
               "storage: {interface: storage, policy: route, subnet: 10.77.1.0/24}\n",
               0644);
    varde::test::replace_file("/etc/hosts", hosts);
    // The directory hangs, too, and its mount is found by the text of its path.
    const varde::test::hung_mount hung(folder + "/flash", source, "fuse.sshfs", owner);
    request job = job_here();
    job.wish.directory = folder + "//./flash/a";
    return set_up(job, job_id, where);
}

Test(network, a_server_is_found_by_its_name) {
    AS_ROOT();
    own_network();
    ip("route add 10.77.1.250 dev compute");
    const state made = set_up_on("anna@filer-seven:/x", 0, "10.77.1.250 filer-seven\n");
    cr_assert(made.ready && made.storage.type == "fuse.sshfs" && made.storage.problem.empty(), "%s",
              made.storage.problem.c_str());
    cr_assert(made.storage.servers == (std::vector<storage_server>{{server, "storage"}}));
    expect_text(made.directory_problem, {"its file system hangs"});
}

Test(network, the_word_of_a_user_adds_no_route) {
    AS_ROOT();
    own_network();
    ip("route add 10.77.1.250 dev compute");
    const state made = set_up_on("filer-seven:/x", user, "10.77.1.250 filer-seven\n");
    cr_assert(made.ready && routes().empty());
    expect_text(made.storage.problem, {"is reached over 'compute'", "a user has mounted"});
}

// A name server that says nothing.
Test(network, a_name_that_is_not_found_in_time_is_said) {
    AS_ROOT();
    own_network();
    const int silent = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    here.sin_port = ::htons(53);
    cr_assert_eq(::bind(silent, reinterpret_cast<const sockaddr*>(&here), sizeof here), 0);
    varde::test::own_mounts();
    varde::test::replace_file("/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:30 attempts:4\n");
    const uint64_t start = mono_ns();
    const state made = set_up_on("filer.cluster.example:/x", 0, "127.0.0.1 localhost\n");
    cr_assert_lt((mono_ns() - start) / ns_per_s, 25, "the C library itself would wait for 30 s and more");
    expect_text(made.storage.problem, {"server 'filer.cluster.example'", "has no address"});
    ::close(silent);
}
