// Both kinds of control groups, by their files.
#include "prolog/cgroup.h"

#include "base/clock.h"
#include "base/fields.h"
#include "base/units.h"
#include "prolog/mount_table.h"
#include "prolog/process_table.h"
#include "prolog/text_file.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace varde::node {

namespace {

constexpr const char* folder_name = "varde";

// Threads of the agent and of io_uring: some hundred on the largest nodes.
constexpr const char* tasks_max = "4096";

// Pidfds at a time: the usual limit is 1,024 descriptors.
constexpr size_t batch_max = 256;

result<void> make_folder(const std::string& path) {
    if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return os_error(errno, "couldn't make '" + path + "'");
    return {};
}

// Lets the groups below `folder` have the controller (v2 hands controllers down level by level).
result<void> hand_down(const std::string& folder, const std::string& controller) {
    auto controllers = read_text(folder + "/cgroup.subtree_control");
    if (!controllers) return std::move(controllers).error();
    for (const auto part : split(std::string_view(*controllers).substr(0, controllers->find('\n')), ' '))
        if (part == controller) return {};
    return write_text(folder + "/cgroup.subtree_control", "+" + controller);
}

std::string job_group(const hierarchy& where, uint32_t job_id) {
    return where.path + "/" + folder_name + "/" + std::to_string(job_id);
}

result<hierarchy> hierarchy_here(const char* controller) {
    auto mountinfo = read_text("/proc/self/mountinfo");
    if (!mountinfo) return std::move(mountinfo).error();
    return find_hierarchy(*mountinfo, controller);
}

result<std::string> make_group(const hierarchy& where, const char* controller, uint32_t job_id) {
    const std::string folder = where.path + "/" + folder_name;
    const std::string group = job_group(where, job_id);
    auto done = where.unified ? hand_down(where.path, controller) : result<void>();
    if (done) done = make_folder(folder);
    if (done && where.unified) done = hand_down(folder, controller);
    if (done) done = make_folder(group);
    if (!done) return std::move(done).error();
    return group;
}

// SIGKILL to some of the group's members; how many it has.  Each is held by its pidfd first and looked up in the group
// again then, so that a number that was given to another process in between is never hit.
size_t kill_members(const std::string& group) {
    const auto members = read_text(group + "/cgroup.procs");
    if (!members) return 0;
    const auto lines = split(*members, '\n');
    std::vector<std::pair<std::string_view, unique_fd>> held;
    for (size_t i = 0; i < std::min(lines.size(), batch_max); i++) {
        const auto pid = parse_number(lines[i], INT32_MAX);
        if (pid) held.emplace_back(lines[i], open_process(static_cast<pid_t>(*pid)));
    }
    const auto again = read_text(group + "/cgroup.procs");
    if (!again) return lines.size();
    auto now = split(*again, '\n');
    std::sort(now.begin(), now.end());
    for (const auto& [line, process] : held)
        if (process && std::binary_search(now.begin(), now.end(), line)) send_signal(process.get(), SIGKILL);
    return lines.size();
}

// Kills and tries until the group is gone.  The members of two hierarchies' groups are the same processes.
result<void> remove_group(const std::string& group, const deadline& until) {
    for (;;) {
        const size_t members = kill_members(group);
        if (::rmdir(group.c_str()) == 0 || errno == ENOENT) return {};
        // EBUSY: a member is still dying.
        if (until.passed()) return os_error(errno, "couldn't remove control group '" + group + "'");
        if (members <= batch_max) ::usleep(5'000);
    }
}

result<std::vector<std::string>> groups_of(uint32_t job_id) {
    std::vector<std::string> groups;
    for (const char* controller : {"pids", "memory"}) {
        const auto where = hierarchy_here(controller);
        if (!where && where.error().what != code::unavailable) return where.error();
        const std::string group = where ? job_group(*where, job_id) : "";
        // Looked at first: where the hierarchy is mounted read-only, rmdir says so even of what is not there.
        if (where && ::access(group.c_str(), F_OK) == 0) groups.push_back(group);
    }
    return groups;
}

}  // namespace

result<hierarchy> find_hierarchy(std::string_view mountinfo, std::string_view controller) {
    hierarchy found;
    for (const mount_entry& each : parse_mounts(mountinfo)) {
        const auto options = split(each.options, ',');
        const bool v1 = each.type == "cgroup" && std::find(options.begin(), options.end(), controller) != options.end();
        // On a host that mounts both, v1 holds its controllers.  A later mount hides an earlier one.
        if (v1 || (each.type == "cgroup2" && (found.path.empty() || found.unified))) found = {each.point, !v1};
    }
    if (found.path.empty())
        return fail(code::unavailable, "this host mounts no " + std::string(controller) + " control groups");
    return found;
}

result<std::string> cgroup_path(uint32_t job_id) {
    const auto where = hierarchy_here("memory");
    if (!where) return where.error();
    return job_group(*where, job_id);
}

result<void> make_cgroup(uint32_t job_id, uint64_t limit_bytes) {
    const auto where = hierarchy_here("memory");
    if (!where) return where.error();
    const auto group = make_group(*where, "memory", job_id);
    if (!group) return group.error();
    return write_text(*group + (where->unified ? "/memory.max" : "/memory.limit_in_bytes"),
                      std::to_string(limit_bytes));
}

result<void> enter_cgroup(uint32_t job_id, pid_t pid) {
    const auto path = cgroup_path(job_id);
    if (!path) return path.error();
    return write_text(*path + "/cgroup.procs", std::to_string(pid));
}

result<void> hold_tasks(uint32_t job_id, pid_t pid) {
    const auto where = hierarchy_here("pids");
    if (!where) return where.error();
    const auto group = make_group(*where, "pids", job_id);
    if (!group) return group.error();
    auto limited = write_text(*group + "/pids.max", tasks_max);
    auto entered = write_text(*group + "/cgroup.procs", std::to_string(pid));
    return limited ? std::move(entered) : std::move(limited);
}

void kill_cgroup(uint32_t job_id) {
    const auto groups = groups_of(job_id);
    if (!groups) return;  // remove_cgroup says why
    for (const std::string& group : *groups) {
        discard(write_text(group + "/pids.max", "0"), "not every group has it; then who forks is chased");
        discard(write_text(group + "/cgroup.kill", "1"), "v2 of newer kernels has it");
        kill_members(group);
    }
}

result<void> remove_cgroup(uint32_t job_id, int timeout_ms) {
    kill_cgroup(job_id);
    const auto groups = groups_of(job_id);
    if (!groups) return groups.error();
    const auto until = deadline::in_ms(static_cast<uint64_t>(timeout_ms));
    for (const std::string& group : *groups)
        if (auto removed = remove_group(group, until); !removed) return removed;
    return {};
}

}  // namespace varde::node
