// state.json, written and read.
#include "prolog/state.h"

#include "base/limits.h"
#include "base/units.h"
#include "config/trusted_file.h"
#include "prolog/log.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <syslog.h>

namespace varde::node {

namespace {

constexpr size_t state_bytes_max = 64 << 10;
constexpr size_t reason_bytes_max = 1024;
constexpr size_t problem_bytes_max = 2048;  // it names paths
constexpr size_t directory_bytes_max = limits::path_bytes_max;

constexpr uint64_t pid_max = std::numeric_limits<pid_t>::max();

using nlohmann::json;

bool read_number(const json& from, const char* key, uint64_t most, uint64_t& to) {
    const auto found = from.find(key);
    if (found == from.end() || !found->is_number_unsigned() || found->get<uint64_t>() > most) return false;
    to = found->get<uint64_t>();
    return true;
}

bool read_text(const json& from, const char* key, std::string& to) {
    const auto found = from.find(key);
    if (found == from.end() || !found->is_string()) return false;
    to = found->get<std::string>();
    return true;
}

bool read_flag(const json& from, const char* key, bool& to) {
    const auto found = from.find(key);
    if (found == from.end() || !found->is_boolean()) return false;
    to = found->get<bool>();
    return true;
}

// Younger than the rest, as the next one.
bool read_pages(const json& from, state& to) {
    return !from.contains("huge_page_bytes") || (read_number(from, "huge_page_bytes", UINT64_MAX, to.huge_page_bytes) &&
                                                 read_flag(from, "planned", to.planned));
}

json encode_storage(const storage_facts& from) {
    json servers = json::array();
    for (const storage_server& each : from.servers)
        servers.push_back({{"address", each.address}, {"interface", printable(each.interface)}});
    return {{"mount", printable(from.mount, directory_bytes_max)},
            {"type", printable(from.type)},
            {"servers", servers},
            {"mtu", from.mtu_bytes},
            {"speed_mbps", from.speed_mbps},
            {"problem", printable(from.problem, problem_bytes_max)}};
}

bool decode_storage(const json& from, storage_facts& to) {
    uint64_t mtu = 0;
    uint64_t speed = 0;
    if (!from.is_object() || !read_text(from, "mount", to.mount) || !read_text(from, "type", to.type) ||
        !read_number(from, "mtu", UINT32_MAX, mtu) || !read_number(from, "speed_mbps", UINT32_MAX, speed) ||
        !read_text(from, "problem", to.problem) || !from.contains("servers") || !from["servers"].is_array())
        return false;
    to.mtu_bytes = static_cast<uint32_t>(mtu);
    to.speed_mbps = static_cast<uint32_t>(speed);
    for (const json& each : from["servers"]) {
        storage_server server;
        if (!each.is_object() || !read_text(each, "address", server.address) ||
            !read_text(each, "interface", server.interface))
            return false;
        to.servers.push_back(std::move(server));
    }
    return true;
}

// What was seen of the checkpoint directory and its network.  Younger than the rest: a job that was started by an older
// prolog has none of it, and its agent is to be found all the same.
bool read_directory(const json& from, state& to) {
    if (!from.contains("directory")) return true;
    uint64_t pid = 0;
    if (!read_text(from, "directory", to.directory) || !read_text(from, "directory_problem", to.directory_problem) ||
        !read_number(from, "probe_pid", pid_max, pid) ||
        !read_number(from, "probe_start_ticks", UINT64_MAX, to.probe.start_ticks) ||
        (from.contains("storage") && !decode_storage(from["storage"], to.storage)))
        return false;
    to.probe.pid = static_cast<pid_t>(pid);
    return true;
}

}  // namespace

std::string encode_state(const state& from) {
    const json text{
        {"job", from.job_id},
        {"uid", from.uid},
        {"restart_count", from.restart_count},
        {"boot", printable(from.boot)},
        {"state", from.ready ? "ready" : "degraded"},
        {"reason", printable(from.reason, reason_bytes_max)},
        {"agent_pid", static_cast<uint64_t>(from.agent_pid)},
        {"agent_start_ticks", from.agent_start_ticks},
        {"arena_bytes", from.arena_bytes},
        {"huge_page_bytes", from.huge_page_bytes},
        {"planned", from.planned},
        {"cgroup", from.cgroup},
        {"cgroup_reason", printable(from.cgroup_reason, reason_bytes_max)},
        {"directory", printable(from.directory, directory_bytes_max)},
        {"directory_problem", printable(from.directory_problem, problem_bytes_max)},
        {"probe_pid", static_cast<uint64_t>(from.probe.pid)},
        {"probe_start_ticks", from.probe.start_ticks},
        {"storage", encode_storage(from.storage)},
    };
    return text.dump() + "\n";
}

result<state> decode_state(const std::string& text) {
    const json root = json::parse(text, nullptr, false);
    state found;
    std::string word;
    uint64_t job = 0;
    uint64_t uid = 0;
    uint64_t restarts = 0;
    uint64_t pid = 0;
    const bool complete =
        root.is_object() && read_number(root, "job", UINT32_MAX, job) && read_number(root, "uid", UINT32_MAX, uid) &&
        read_number(root, "restart_count", UINT32_MAX, restarts) && read_number(root, "agent_pid", pid_max, pid) &&
        read_number(root, "agent_start_ticks", UINT64_MAX, found.agent_start_ticks) &&
        read_number(root, "arena_bytes", UINT64_MAX, found.arena_bytes) && read_text(root, "state", word) &&
        read_text(root, "reason", found.reason) && read_flag(root, "cgroup", found.cgroup) &&
        read_text(root, "cgroup_reason", found.cgroup_reason) &&
        (!root.contains("boot") || read_text(root, "boot", found.boot)) && read_pages(root, found) &&
        read_directory(root, found);
    if (!complete || (word != "ready" && word != "degraded"))
        return fail(code::damaged, "a state file of another form");
    found.job_id = static_cast<uint32_t>(job);
    found.uid = static_cast<uid_t>(uid);
    found.restart_count = static_cast<uint32_t>(restarts);
    found.ready = word == "ready";
    found.agent_pid = static_cast<pid_t>(pid);
    return found;
}

result<void> write_state(const job_directory& where, const state& what) {
    return where.write_file(state_name, encode_state(what));
}

result<state> read_state(const job_directory& where) {
    const std::string shown = where.path() + "/" + state_name;
    auto text = read_trusted_file(where.fd(), state_name, shown, state_bytes_max);
    if (!text) return std::move(text).error();
    auto found = decode_state(*text);
    if (!found) return fail(code::damaged, "couldn't use '" + shown + "': " + found.error().context);
    return found;
}

state known_state(const job_directory& where, uint32_t job_id) {
    auto found = read_state(where);
    if (found && found->job_id == job_id) {
        // An older prolog, of this start of the system then, has written none.
        if (found->boot.empty() || found->boot == boot_id()) return std::move(*found);
        found->agent_pid = 0;
        found->agent_start_ticks = 0;
        found->probe = {};
        return std::move(*found);
    }
    if (found)
        log_line(LOG_WARNING, "couldn't use '" + where.path() + "/" + state_name + "': it is of job " +
                                  std::to_string(found->job_id));
    else if (found.error().what != code::not_found) log_line(LOG_WARNING, found.error().context);
    state only;
    only.job_id = job_id;
    return only;
}

}  // namespace varde::node
