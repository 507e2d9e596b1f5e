// From a path to interfaces.
#include "prolog/storage_network.h"

#include "base/fields.h"
#include "base/units.h"
#include "prolog/route_ledger.h"
#include "prolog/storage_servers.h"
#include "prolog/text_file.h"
#include "prolog/user_errand.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>

namespace varde::node {

namespace {

constexpr int resolve_ms = 1000;
constexpr int answer_ms = 1500;  // the kernel asks again after 1 s
constexpr size_t servers_max = 32;

std::optional<ip_address> address_of(const addrinfo& each) {
    ip_address found;
    if (each.ai_family == AF_INET) {
        sockaddr_in address{};
        std::memcpy(&address, each.ai_addr, sizeof address);
        std::memcpy(found.bytes.data(), &address.sin_addr, sizeof address.sin_addr);
        return found;
    }
    if (each.ai_family != AF_INET6) return std::nullopt;
    sockaddr_in6 address{};
    std::memcpy(&address, each.ai_addr, sizeof address);
    found.six = true;
    std::memcpy(found.bytes.data(), &address.sin6_addr, sizeof address.sin6_addr);
    return found;
}

// A line per name: its first address, which is the one that a client tries first.
std::string look_up(const std::vector<std::string>& names) {
    std::string lines;
    for (const std::string& name : names) {
        addrinfo hints{};
        hints.ai_socktype = SOCK_STREAM;
        addrinfo* list = nullptr;
        std::string line;
        if (::getaddrinfo(name.c_str(), nullptr, &hints, &list) == 0) {
            const auto address = address_of(*list);
            if (address) line = format_address(*address);
            ::freeaddrinfo(list);
        }
        lines += line + "\n";
    }
    return lines;
}

// Numbers at once; names by a child, whose user database and name server may hang.
void find_addresses(const std::vector<std::string>& names, const request& job, network_view& view) {
    std::vector<std::string> words;
    for (const std::string& name : names) {
        const auto address = parse_address(name);
        if (address) view.servers.push_back(*address);
        else words.push_back(name);
    }
    if (words.empty()) return;
    auto errand = user_errand::begin(job.uid, job.gid, [&words] { return look_up(words); });
    const auto answer = errand ? errand->wait(resolve_ms) : std::nullopt;
    std::string_view lines = answer ? std::string_view(*answer) : std::string_view();
    for (const std::string& word : words) {
        const auto address = parse_address(take_until(lines, '\n'));
        if (address) view.servers.push_back(*address);
        else view.unknown.push_back(word);
    }
}

void find_ways(network_view& view) {
    view.ways.clear();
    for (const ip_address& server : view.servers) view.ways.push_back(find_way(server));
}

// A server on this very node is reached over no network.
bool is_right(const result<std::string>& way, const std::string& interface) {
    return way && (*way == interface || *way == "lo");
}

std::string name_of(const network_view& view) {
    return "'" + printable(view.mount ? view.mount->point : "/", 256) + "'" +
           (view.mount ? " (" + printable(view.mount->type) + ")" : "");
}

void add(std::string& lines, const std::string& line) { lines += (lines.empty() ? "" : "; ") + line; }

void describe_ways(const storage_settings& site, const network_view& view, std::string& lines) {
    size_t wrong = 0;
    for (size_t i = 0; i < view.servers.size(); i++) {
        if (is_right(view.ways[i], site.interface) || wrong++ > 0) continue;
        const std::string way = view.ways[i]
                                    ? "is reached over '" + *view.ways[i] + "', not over '" + site.interface + "'"
                                    : view.ways[i].error().context;
        add(lines, "server " + format_address(view.servers[i]) + " of " + name_of(view) + " " + way);
    }
    if (wrong > 1) add(lines, "the same holds for " + std::to_string(wrong - 1) + " more");
}

void describe_interface(const storage_settings& site, const network_view& view, std::string& lines) {
    const std::string name = "interface '" + site.interface + "'";
    if (!view.interface) return add(lines, "there is no " + name);
    if (!view.interface->up) add(lines, name + " is down");
    if (view.interface->mtu_bytes < site.mtu_min_bytes)
        add(lines, name + " has an MTU of " + std::to_string(view.interface->mtu_bytes) + ", less than " +
                       std::to_string(site.mtu_min_bytes));
    if (view.interface->speed_mbps != 0 && view.interface->speed_mbps < site.speed_min_mbps)
        add(lines, name + " runs at " + std::to_string(view.interface->speed_mbps) + " Mbit/s, less than " +
                       std::to_string(site.speed_min_mbps));
}

// A route to who is not there would take away a way that works, however wrong it is.
void drop_silent(const storage_settings& site, const network_view& view, std::vector<wanted_route>& wanted,
                 std::string& problems) {
    const auto next_of = [](const wanted_route& each) { return each.route.gateway.value_or(each.route.to); };
    std::vector<ip_address> asked;
    for (const wanted_route& each : wanted)
        if (each.missing) asked.push_back(next_of(each));
    // None is wanted without the interface.
    const auto answered = asked.empty() ? std::vector<bool>() : answer_on(view.interface->index, asked, answer_ms);
    std::vector<wanted_route> kept;
    size_t question = 0;
    for (const wanted_route& each : wanted) {
        if (!each.missing || answered[question++]) kept.push_back(each);
        else
            add(problems, "no route to " + format_address(each.route.to) + " is added: " +
                              format_address(next_of(each)) + " does not answer on '" + site.interface + "'");
    }
    wanted = std::move(kept);
}

// What could not be put right.
std::string put_right(const storage_settings& site, network_view& view, uint32_t job_id,
                      const std::string& run_directory) {
    std::string problems;
    std::vector<wanted_route> wanted;
    for (size_t i = 0; i < view.servers.size(); i++) {
        const bool missing = !is_right(view.ways[i], site.interface);
        const std::string refused = why_no_route(site, view, view.servers[i]);
        if (refused.empty()) wanted.push_back({{view.servers[i], site.interface, site.gateway}, missing});
        else if (missing) add(problems, refused);
    }
    drop_silent(site, view, wanted, problems);
    const auto held = wanted.empty() ? result<void>() : hold_routes(run_directory, job_id, wanted);
    if (!held) add(problems, held.error().context);
    find_ways(view);
    return problems;
}

network_view look(const storage_settings& site, const std::string& path, const request& job) {
    network_view view;
    const auto text = read_text("/proc/self/mountinfo");
    if (text) view.mount = find_mount(parse_mounts(*text), path);
    if (const storage_target* target = target_of(site.targets, path)) {
        view.remote = true;
        view.servers = target->servers;
    } else if (view.mount) {
        const storage_servers said = servers_of(*view.mount);
        view.remote = said.remote;
        view.by_user = said.by_user;
        find_addresses(said.names, job, view);
    }
    if (view.servers.size() > servers_max) view.servers.resize(servers_max);
    find_ways(view);
    if (site.interface.empty()) return view;
    const auto facts = read_interface(site.interface);
    if (facts) view.interface = *facts;
    return view;
}

}  // namespace

std::string describe_network(const storage_settings& site, const network_view& view) {
    if (site.interface.empty() || !view.remote) return "";
    std::string lines;
    describe_ways(site, view, lines);
    if (!view.unknown.empty())
        add(lines, "server '" + printable(view.unknown.front()) + "' of " + name_of(view) + " has no address");
    else if (view.servers.empty())
        add(lines, "the mount of " + name_of(view) + " names no server; set storage.targets in varde.yaml");
    describe_interface(site, view, lines);
    return lines;
}

std::string why_no_route(const storage_settings& site, const network_view& view, const ip_address& server) {
    const std::string refused = "no route to " + format_address(server) + " is added: ";
    if (view.by_user) return refused + "a user has mounted " + name_of(view);
    if (!site.subnet || !site.subnet->contains(server)) return refused + "it is outside storage.subnet";
    if (!view.interface || !view.interface->up) return refused + "'" + site.interface + "' is not up";
    const ip_address& next = site.gateway ? *site.gateway : server;
    const auto& networks = view.interface->addresses;
    if (std::any_of(networks.begin(), networks.end(), [&](const ip_prefix& each) { return each.contains(next); }))
        return "";
    return refused + format_address(next) + " is on no network of '" + site.interface + "'" +
           (site.gateway ? "" : "; set storage.gateway in varde.yaml");
}

storage_facts check_network(const storage_settings& site, const std::string& path, const request& job,
                            const std::string& run_directory) {
    network_view view = look(site, path, job);
    const std::string refused = site.policy == storage_policy::route && !view.servers.empty()
                                    ? put_right(site, view, job.job_id, run_directory)
                                    : "";
    storage_facts facts;
    facts.problem = describe_network(site, view);
    // The reason only where it has an effect.
    if (!facts.problem.empty() && !refused.empty()) add(facts.problem, refused);
    if (view.mount) {
        facts.mount = view.mount->point;
        facts.type = view.mount->type;
    }
    for (size_t i = 0; i < view.servers.size(); i++)
        facts.servers.push_back({format_address(view.servers[i]), view.ways[i] ? *view.ways[i] : ""});
    if (view.interface) {
        facts.mtu_bytes = view.interface->mtu_bytes;
        facts.speed_mbps = view.interface->speed_mbps;
    }
    return facts;
}

std::string describe_storage(const storage_facts& facts) {
    if (!facts.problem.empty())
        return "storage network: " + facts.problem +
               "; the job starts, and its checkpoints take the way that there is; "
               "put it right, or see storage.policy in varde.yaml";
    if (facts.servers.empty()) return "";
    std::string line = "storage network: '" + printable(facts.mount, 256) + "' (" + printable(facts.type) + ")";
    for (const storage_server& each : facts.servers)
        line += " of " + each.address +
                (each.interface.empty() ? ", to which no route leads" : " over '" + each.interface + "'");
    return line;
}

}  // namespace varde::node
