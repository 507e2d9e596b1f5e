// /proc and pidfds.
#include "prolog/process_table.h"

#include "base/clock.h"
#include "base/fields.h"
#include "base/units.h"
#include "prolog/text_file.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <dirent.h>
#include <memory>
#include <poll.h>
#include <sys/syscall.h>

namespace varde::node {

namespace {

// Fields of /proc/PID/stat after the name, counted from the state (proc(5) calls it field 3).
constexpr size_t field_state = 0;
constexpr size_t field_parent = 1;
constexpr size_t field_session = 3;
constexpr size_t field_user = 11;
constexpr size_t field_kernel = 12;
constexpr size_t field_start = 19;

}  // namespace

std::string boot_id() {
    const auto text = read_text("/proc/sys/kernel/random/boot_id");
    return text ? text->substr(0, text->find('\n')) : "unknown";
}

result<process_facts> parse_stat(std::string_view text) {
    const size_t end = text.rfind(')');  // the name may hold anything, a ')' too
    if (end == std::string_view::npos) return fail(code::damaged, "a process has no name");
    text.remove_prefix(end + 1);
    const auto fields = split(text.substr(0, text.find('\n')), ' ');
    if (fields.size() <= field_start) return fail(code::damaged, "a process has too few facts");
    const auto parent = parse_number(fields[field_parent], INT32_MAX);
    const auto session = parse_number(fields[field_session], INT32_MAX);
    const auto start = parse_number(fields[field_start]);
    const auto user = parse_number(fields[field_user], UINT64_MAX / 2);
    const auto kernel = parse_number(fields[field_kernel], UINT64_MAX / 2);
    if (!parent || !session || !start || !user || !kernel)
        return fail(code::damaged, "a fact of a process is no number");
    const bool zombie = fields[field_state] == "Z" || fields[field_state] == "X";
    return process_facts{static_cast<pid_t>(*parent), static_cast<pid_t>(*session), *start, *user + *kernel, zombie};
}

result<process_facts> read_process(pid_t pid) {
    auto text = read_text("/proc/" + std::to_string(pid) + "/stat");
    if (!text) return std::move(text).error();
    return parse_stat(*text);
}

unique_fd open_process(pid_t pid) noexcept { return unique_fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); }

result<unique_fd> open_process(pid_t pid, uint64_t start_ticks) {
    if (pid <= 0) return fail(code::not_found, "there is no process");
    unique_fd process = open_process(pid);
    if (!process) return fail(code::not_found, "process " + std::to_string(pid) + " is gone");
    // Looked at after the handle is held: a number that was given to somebody else shows in the start time.
    const auto facts = read_process(pid);
    if (!facts || facts->start_ticks != start_ticks || facts->zombie)
        return fail(code::not_found, "process " + std::to_string(pid) + " is gone");
    return process;
}

bool send_signal(int process, int signal) noexcept {
    return ::syscall(SYS_pidfd_send_signal, process, signal, nullptr, 0) == 0;
}

bool wait_process(int process, int timeout_ms) noexcept {
    const auto until = deadline::in_ms(static_cast<uint64_t>(timeout_ms));
    for (;;) {
        pollfd waited{process, POLLIN, 0};
        const int ready = ::poll(&waited, 1, until.left_ms());
        if (ready < 0 && errno == EINTR) continue;
        return ready > 0;
    }
}

namespace {

// As /proc/PID/status has it: /proc/PID itself is root's where a process keeps others from looking at it.
bool belongs_to(pid_t pid, uid_t owner) {
    const auto text = read_text("/proc/" + std::to_string(pid) + "/status");
    if (!text) return false;
    const std::string_view all = *text;
    const size_t at = all.find("\nUid:\t");
    if (at == std::string_view::npos) return false;
    const std::string_view rest = all.substr(at + 6);
    const auto uid = parse_number(rest.substr(0, rest.find('\t')), UINT32_MAX);
    return uid && *uid == owner;
}

}  // namespace

std::vector<process_name> processes_of_session(const process_name& leader, uid_t owner) {
    std::vector<process_name> found;
    const auto now = read_process(leader.pid);
    if (now && now->start_ticks != leader.start_ticks) return found;
    const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir("/proc"), ::closedir);
    if (!listing) return found;
    while (const dirent* entry = ::readdir(listing.get())) {
        const auto pid = parse_number(entry->d_name, INT32_MAX);
        if (!pid) continue;
        const auto facts = read_process(static_cast<pid_t>(*pid));
        if (facts && facts->session == leader.pid && !facts->zombie &&
            (now || belongs_to(static_cast<pid_t>(*pid), owner)))
            found.push_back({static_cast<pid_t>(*pid), facts->start_ticks});
    }
    return found;
}

}  // namespace varde::node
