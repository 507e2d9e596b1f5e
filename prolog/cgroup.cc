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

result<void> make_folder(const std::string& path) {
    if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return os_error(errno, "couldn't make '" + path + "'");
    return {};
}

// Lets the groups below `folder` have the memory controller (v2 hands controllers down level by level).
result<void> hand_down(const std::string& folder) {
    auto controllers = read_text(folder + "/cgroup.subtree_control");
    if (!controllers) return std::move(controllers).error();
    for (const auto part : split(*controllers, ' '))
        if (part.substr(0, 6) == "memory") return {};
    return write_text(folder + "/cgroup.subtree_control", "+memory");
}

std::string job_group(const memory_hierarchy& hierarchy, uint32_t job_id) {
    return hierarchy.path + "/" + folder_name + "/" + std::to_string(job_id);
}

result<memory_hierarchy> memory_hierarchy_here() {
    auto mountinfo = read_text("/proc/self/mountinfo");
    if (!mountinfo) return std::move(mountinfo).error();
    return find_memory_hierarchy(*mountinfo);
}

// One round of SIGKILL over the group's members.  A member is held by its pidfd first and looked up in the group
// again then, so that a number that was given to another process in between is never hit.
size_t kill_members(const std::string& group) {
    const auto members = read_text(group + "/cgroup.procs");
    if (!members) return 0;
    size_t count = 0;
    for (const auto line : split(*members, '\n')) {
        const auto pid = parse_number(line, INT32_MAX);
        if (!pid) continue;
        count++;
        const auto facts = read_process(static_cast<pid_t>(*pid));
        if (!facts) continue;
        const auto process = open_process(static_cast<pid_t>(*pid), facts->start_ticks);
        const auto again = read_text(group + "/cgroup.procs");
        if (!process || !again) continue;
        const auto now = split(*again, '\n');
        if (std::find(now.begin(), now.end(), line) != now.end()) send_signal(process->get(), SIGKILL);
    }
    return count;
}

}  // namespace

result<memory_hierarchy> find_memory_hierarchy(std::string_view mountinfo) {
    memory_hierarchy found;
    for (const mount_entry& each : parse_mounts(mountinfo)) {
        const auto options = split(each.options, ',');
        const bool v1 = each.type == "cgroup" && std::find(options.begin(), options.end(), "memory") != options.end();
        // On a host that mounts both, v1 holds the memory controller.  A later mount hides an earlier one.
        if (v1 || (each.type == "cgroup2" && (found.path.empty() || found.unified))) found = {each.point, !v1};
    }
    if (found.path.empty()) return fail(code::unavailable, "this host mounts no memory control groups");
    return found;
}

result<std::string> cgroup_path(uint32_t job_id) {
    const auto hierarchy = memory_hierarchy_here();
    if (!hierarchy) return hierarchy.error();
    return job_group(*hierarchy, job_id);
}

result<void> make_cgroup(uint32_t job_id, uint64_t limit_bytes) {
    auto hierarchy = memory_hierarchy_here();
    if (!hierarchy) return std::move(hierarchy).error();
    const std::string folder = hierarchy->path + "/" + folder_name;
    if (hierarchy->unified) {
        auto given = hand_down(hierarchy->path);
        if (!given) return std::move(given).error();
    }
    auto made = make_folder(folder);
    if (!made) return std::move(made).error();
    if (hierarchy->unified) {
        auto given = hand_down(folder);
        if (!given) return std::move(given).error();
    }
    const std::string group = job_group(*hierarchy, job_id);
    made = make_folder(group);
    if (!made) return std::move(made).error();
    return write_text(group + (hierarchy->unified ? "/memory.max" : "/memory.limit_in_bytes"),
                      std::to_string(limit_bytes));
}

result<void> enter_cgroup(uint32_t job_id, pid_t pid) {
    const auto path = cgroup_path(job_id);
    if (!path) return path.error();
    return write_text(*path + "/cgroup.procs", std::to_string(pid));
}

result<void> remove_cgroup(uint32_t job_id, int timeout_ms) {
    const auto path = cgroup_path(job_id);
    if (!path) return path.error().what == code::unavailable ? result<void>() : path.error();
    // Looked at first: where the hierarchy is mounted read-only, rmdir says so even of what is not there.
    if (::access(path->c_str(), F_OK) != 0 && errno == ENOENT) return {};
    const auto until = deadline::in_ms(static_cast<uint64_t>(timeout_ms));
    for (;;) {
        kill_members(*path);
        if (::rmdir(path->c_str()) == 0 || errno == ENOENT) return {};
        // EBUSY: a member is still dying.
        if (until.passed()) return os_error(errno, "couldn't remove control group '" + *path + "'");
        ::usleep(5'000);
    }
}

}  // namespace varde::node
