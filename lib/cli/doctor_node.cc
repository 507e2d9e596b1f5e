// What a host must have: one Varde, a varde.yaml that is taken, memory to lock, a kernel that helps.
#include "cli/doctor.h"

#include "base/fields.h"
#include "base/process.h"
#include "base/units.h"
#include "varde.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <glob.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

namespace varde::cli {

namespace {

constexpr uint32_t jobs_shown_max = 8;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// "libvarde.so.0 -> libvarde.so.0.1.0" of one of the places that a prefix has for libraries; empty: there is none.
std::string library_version(const host& machine) {
    for (const char* place : {"/lib", "/lib64", "/lib/*"}) {
        const std::string pattern = machine.root + machine.prefix + place + "/libvarde.so.0";
        glob_t found{};
        std::array<char, 256> target{};
        ssize_t length = -1;
        if (::glob(pattern.c_str(), 0, nullptr, &found) == 0)
            length = ::readlink(found.gl_pathv[0], target.data(), target.size());
        ::globfree(&found);
        const std::string_view name(target.data(), static_cast<size_t>(std::max<ssize_t>(length, 0)));
        constexpr std::string_view stem = "libvarde.so.";
        if (name.starts_with(stem)) return std::string(name.substr(stem.size()));
    }
    return "";
}

std::string agent_version(const host& machine) {
    program what;
    what.arguments = {machine.root + machine.prefix + "/libexec/varde/varde-agent", "--version"};
    what.timeout_ms = machine.calls.timeout_ms;
    const auto said = run_program(what);
    constexpr std::string_view stem = "varde-agent ";
    if (!said || said->exit_status != 0 || !said->output.starts_with(stem)) return "";
    return first_line(said->output.substr(stem.size()));
}

void check_job(const host& machine, const std::string& job, findings& into) {
    const std::string path = machine.run_directory + "/" + job + "/state.json";
    const auto state = nlohmann::json::parse(text_at(machine, path), nullptr, false);
    const std::string what = "job " + job;
    if (!state.is_object() || !state.contains("state")) {
        into.push_back({verdict::warn, what, path + " cannot be read",
                        "SLURM_JOB_ID=" + job + " " + machine.prefix + "/libexec/varde/varde-epilog, if it is over"});
        return;
    }
    const std::string reason = state.value("reason", "");
    const uint64_t agent = state.value("agent_pid", uint64_t{0});
    if (state["state"] != "ready")
        into.push_back({verdict::warn, what, "degraded: " + printable(reason, 400),
                        "see the reason; the job runs with an agent that the library starts"});
    else if (!exists_at(machine, "/proc/" + std::to_string(agent)))
        into.push_back(
            {verdict::warn, what, "its agent (process " + std::to_string(agent) + ") has gone",
             "SLURM_JOB_ID=" + job + " " + machine.prefix + "/libexec/varde/varde-epilog, if the job is over"});
    else into.push_back({verdict::ok, what, "ready", ""});
}

// Hard limit of "Max locked memory" in /proc/PID/limits: "unlimited", or bytes.
std::string lock_limit_of(const host& machine, uint32_t pid) {
    const std::string text = text_at(machine, "/proc/" + std::to_string(pid) + "/limits");
    std::string_view rest = text;
    while (!rest.empty()) {
        const auto words = split(take_until(rest, '\n'), ' ');
        if (words.size() >= 5 && words[0] == "Max" && words[1] == "locked") return std::string(words[4]);
    }
    return "";
}

void check_lock_limit(const host& machine, findings& into) {
    const uint32_t slurmd = process_named(machine, "slurmd");
    std::string limit = slurmd != 0 ? lock_limit_of(machine, slurmd) : "";
    const bool of_slurmd = !limit.empty();
    if (!of_slurmd) {
        const uint64_t ours = machine.calls.lock_limit();
        limit = ours == UINT64_MAX ? "unlimited" : std::to_string(ours);
    }
    if (limit == "unlimited") {
        into.push_back({verdict::ok, "locked memory", of_slurmd ? "slurmd: unlimited" : limit, ""});
        return;
    }
    const auto bytes = parse_number(limit);
    into.push_back({verdict::warn, "locked memory",
                    (of_slurmd ? "slurmd: " : "") + (bytes ? format_bytes(*bytes) : limit) +
                        "; agents that the library starts can lock no more",
                    of_slurmd ? "systemctl edit slurmd: [Service] LimitMEMLOCK=infinity"
                              : "/etc/security/limits.d/varde.conf: * hard memlock unlimited"});
}

// The arena is shared memory, for which the kernel has a setting of its own; also where huge pages are wanted, because
// there may be none.
void check_large_pages(const host& machine, findings& into) {
    constexpr const char* file = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    const std::string setting = first_line(text_at(machine, file));
    const bool refused = setting.find("[never]") != std::string::npos || setting.find("[deny]") != std::string::npos;
    if (!refused) {
        into.push_back({verdict::ok, "large pages for the arena", setting.empty() ? "not there" : setting, ""});
        return;
    }
    into.push_back({verdict::warn, "large pages for the arena",
                    setting + "; on pages of 4 KiB, transfers cost more and the epilog gives back some GiB a second",
                    std::string("/etc/tmpfiles.d/varde.conf: w ") + file + " - - - - advise"});
}

void check_huge_pages(const host& machine, findings& into) {
    const uint64_t wanted = machine.site.huge_page_bytes;
    if (wanted == 0) return;
    const std::string folder = "/sys/kernel/mm/hugepages/hugepages-" + std::to_string(wanted / 1024) + "kB";
    const std::string what = "huge pages of " + format_bytes(wanted);
    if (exists_at(machine, folder))
        into.push_back({verdict::ok, what,
                        first_line(text_at(machine, folder + "/free_hugepages")) + " of " +
                            first_line(text_at(machine, folder + "/nr_hugepages")) + " free; the prolog reserves more",
                        ""});
    else
        into.push_back({verdict::wrong, what, "this kernel has none of this size",
                        machine.site_file + ": agent: {huge_pages: off}"});
}

// The mount of the memory controller, of version 2 or 1; empty: there is none.
std::string memory_group(const host& machine) {
    const std::string text = text_at(machine, "/proc/self/mountinfo");
    std::string_view rest = text;
    while (!rest.empty()) {
        const auto words = split(take_until(rest, '\n'), ' ');
        for (size_t dash = 6; dash + 3 < words.size(); dash++) {
            if (words[dash] != "-") continue;
            const std::string path(words[4]);
            if (words[dash + 1] == "cgroup2" &&
                text_at(machine, path + "/cgroup.controllers").find("memory") != std::string::npos)
                return path;
            const auto options = split(words[dash + 3], ',');
            for (const auto option : options)
                if (words[dash + 1] == "cgroup" && option == "memory") return path;
        }
    }
    return "";
}

}  // namespace

void check_versions(const host& machine, findings& into) {
    const std::string ours = VARDE_VERSION;
    const auto compare = [&](const char* what, const std::string& theirs) {
        if (theirs == ours) into.push_back({verdict::ok, what, theirs, ""});
        else
            into.push_back(
                {verdict::wrong, what,
                 (theirs.empty() ? "not found below " + machine.prefix : theirs) + ", and this program is " + ours,
                 "install one Varde: apt install ./varde_" + ours + "_*.deb"});
    };
    compare("library", library_version(machine));
    compare("agent", agent_version(machine));
}

void check_site(const host& machine, findings& into) {
    const auto file = load_config_file(machine.root + machine.site_file);
    if (file) {
        into.push_back(
            {verdict::ok, "varde.yaml", file->exists ? machine.site_file : "missing: all defaults hold", ""});
        return;
    }
    into.push_back({verdict::wrong, "varde.yaml", file.error().context,
                    machine.site_file + ": as the message says; until then jobs run degraded"});
}

void check_run_directory(const host& machine, findings& into) {
    const std::string& path = machine.run_directory;
    struct stat about {};
    if (::lstat((machine.root + path).c_str(), &about) != 0) {
        into.push_back({verdict::ok, path, "not there yet: the first prolog makes it", ""});
        return;
    }
    const bool roots = about.st_uid == 0 || !machine.root.empty();
    if (!S_ISDIR(about.st_mode) || !roots || (about.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        into.push_back({verdict::wrong, path, "others than root may write it: no prolog uses it",
                        "rm -r " + path + " while no job runs"});
        return;
    }
    into.push_back({verdict::ok, path, "root's", ""});
    const auto close = [](DIR* open) { ::closedir(open); };
    const std::unique_ptr<DIR, decltype(close)> listing(::opendir((machine.root + path).c_str()), close);
    uint32_t shown = 0;
    while (const dirent* entry = listing ? ::readdir(listing.get()) : nullptr)
        if (parse_number(entry->d_name) && shown++ < jobs_shown_max) check_job(machine, entry->d_name, into);
}

void check_storage_network(const host& machine, findings& into) {
    const storage_settings& wanted = machine.site.storage;
    if (wanted.interface.empty()) return;
    const std::string folder = "/sys/class/net/" + wanted.interface;
    const auto number = [&](const char* file) { return parse_number(first_line(text_at(machine, folder + file))); };
    const std::string state = first_line(text_at(machine, folder + "/operstate"));
    const auto mtu_bytes = number("/mtu");
    const auto speed_mbps = number("/speed");
    const std::string what = "storage interface";
    // A link that does not tell (a bridge, a tunnel) is "unknown", and some have no speed.
    if (state.empty())
        into.push_back({verdict::wrong, what, wanted.interface + " is not there",
                        machine.site_file + ": storage: {interface: one of `ip link`}"});
    else if (state != "up" && state != "unknown")
        into.push_back(
            {verdict::wrong, what, wanted.interface + " is " + state, "ip link set " + wanted.interface + " up"});
    else if (mtu_bytes && *mtu_bytes < wanted.mtu_min_bytes)
        into.push_back({verdict::wrong, what, wanted.interface + " has an MTU of " + std::to_string(*mtu_bytes),
                        "ip link set " + wanted.interface + " mtu " + std::to_string(wanted.mtu_min_bytes)});
    else if (speed_mbps && *speed_mbps < wanted.speed_min_mbps)
        into.push_back({verdict::wrong, what, wanted.interface + " runs at " + std::to_string(*speed_mbps) + " Mbit/s",
                        "cable, port or adapter; or " + machine.site_file +
                            ": storage: {speed_min_mbps: " + std::to_string(*speed_mbps) + "}"});
    else into.push_back({verdict::ok, what, wanted.interface + " is " + state, ""});
}

void check_memory(const host& machine, findings& into) {
    check_lock_limit(machine, into);
    check_large_pages(machine, into);
    check_huge_pages(machine, into);
    const std::string group = memory_group(machine);
    const bool writable = !group.empty() && ::access((machine.root + group).c_str(), W_OK) == 0;
    if (writable || (!group.empty() && ::geteuid() != 0)) {
        into.push_back({verdict::ok, "control groups", "memory controller at " + group, ""});
        return;
    }
    into.push_back({verdict::warn, "control groups",
                    group.empty() ? "no memory controller: agents count as slurmd's memory"
                                  : group + " is read-only: agents count as slurmd's memory",
                    group.empty() ? "kernel command line: cgroup_enable=memory" : "mount -o remount,rw " + group});
}

void check_kernel(const host& machine, findings& into) {
    const std::string release = first_line(text_at(machine, "/proc/sys/kernel/osrelease"));
    std::string_view rest = release;
    const auto major = parse_number(take_until(rest, '.'));
    const auto minor = parse_number(rest.substr(0, rest.find_first_not_of("0123456789")));
    const bool recent = major && minor && (*major > 5 || (*major == 5 && *minor >= 9));
    into.push_back({recent ? verdict::ok : verdict::warn, "kernel", release.empty() ? "not known" : release,
                    recent ? "" : "5.9 or later has all that agent and prolog ask for"});

    const int refused = machine.calls.try_ring();
    const std::string disabled = first_line(text_at(machine, "/proc/sys/kernel/io_uring_disabled"));
    if (refused == 0) into.push_back({verdict::ok, "io_uring", "allowed", ""});
    else if (!disabled.empty() && disabled != "0")
        into.push_back({verdict::warn, "io_uring", "kernel.io_uring_disabled=" + disabled + "; writing is slower",
                        "/etc/sysctl.d/varde.conf: kernel.io_uring_disabled=0"});
    else
        into.push_back({verdict::warn, "io_uring", std::string(std::strerror(refused)) + "; writing is slower",
                        "the seccomp filter or kernel that refuses it (slurmd's unit, or the container's)"});

    if (machine.calls.clock_in_step()) into.push_back({verdict::ok, "clock", "in step", ""});
    else
        into.push_back({verdict::warn, "clock", "kept in step by nobody; times in histories will not compare",
                        "apt install chrony"});
}

}  // namespace varde::cli
