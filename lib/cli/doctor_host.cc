// What a host says of itself: files, processes, and Slurm's own programs.
#include "cli/doctor.h"

#include "base/fields.h"
#include "base/handle.h"
#include "base/process.h"
#include "base/units.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <memory>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <unistd.h>

namespace varde::cli {

namespace {

constexpr size_t text_bytes_max = 64 << 20;  // a plugin with its debug information

std::string lower(std::string_view text) {
    std::string made(text);
    for (char& c : made)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return made;
}

std::string_view trimmed(std::string_view text) {
    const size_t begin = text.find_first_not_of(" \t\r");
    return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// "Key = value" lines, as slurm.conf has them and scontrol prints them.
std::map<std::string, std::string> settings_of(std::string_view text) {
    std::map<std::string, std::string> found;
    while (!text.empty()) {
        std::string_view line = take_until(text, '\n');
        line = trimmed(line.substr(0, line.find('#')));
        const size_t equals = line.find('=');
        if (equals == std::string_view::npos) continue;
        std::string key = lower(trimmed(line.substr(0, equals)));
        // Later releases number what may be there more than once: "Prolog[0]".
        key.resize(std::min(key.find('['), key.size()));
        const std::string_view value = trimmed(line.substr(equals + 1));
        if (value == "(null)" || value.empty()) continue;
        std::string& all = found[key];
        all += (all.empty() ? "" : ",") + std::string(value);
    }
    return found;
}

int try_ring() {
    io_uring_params parameters{};
    const unique_fd ring(static_cast<int>(::syscall(SYS_io_uring_setup, 1, &parameters)));
    return ring ? 0 : errno;
}

bool clock_in_step() {
    timex state{};
    return ::adjtimex(&state) != TIME_ERROR;
}

uint64_t lock_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_max == RLIM_INFINITY) return UINT64_MAX;
    return limit.rlim_max;
}

// Nobody but root can put something else there: what stands beside a process that only says that it is a daemon is not
// to be run by root.
bool is_roots(const host& machine, const std::string& path) {
    for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
        struct stat about {};
        if (::stat((machine.root + path.substr(0, end)).c_str(), &about) != 0) return false;
        // A folder that stands for a host, in tests, is its maker's.
        const uid_t root = machine.root.empty() ? 0 : ::geteuid();
        if (about.st_uid != root || (about.st_mode & (S_IWGRP | S_IWOTH)) != 0) return false;
        if (end == std::string::npos) return true;
    }
}

// Where the daemon that runs here has its scontrol; /opt/slurm/sbin/slurmd has it in /opt/slurm/bin.
std::string bin_beside(const host& machine, std::string_view daemon) {
    const uint32_t pid = process_named(machine, daemon);
    if (pid == 0) return "";
    std::array<char, 4096> target{};
    const std::string link = machine.root + "/proc/" + std::to_string(pid) + "/exe";
    const ssize_t length = ::readlink(link.c_str(), target.data(), target.size());
    if (length <= 0) return "";
    const std::string path(target.data(), static_cast<size_t>(length));
    const size_t folder = path.rfind("/sbin/");
    const std::string bin = folder == std::string::npos ? "" : path.substr(0, folder) + "/bin";
    return !bin.empty() && is_roots(machine, bin + "/scontrol") ? bin : "";
}

std::string find_slurm_bin(const host& machine) {
    if (!machine.site.bin_dir.empty()) return machine.site.bin_dir;
    for (const char* daemon : {"slurmd", "slurmctld"})
        if (std::string bin = bin_beside(machine, daemon); !bin.empty()) return bin;
    return "/usr/bin";
}

}  // namespace

const system_calls host_calls{try_ring, clock_in_step, lock_limit};

std::string text_at(const host& machine, const std::string& path) {
    const unique_fd file(::open((machine.root + path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    std::string text;
    std::array<char, 4096> buffer{};
    while (file && text.size() < text_bytes_max) {
        const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
        if (got <= 0) break;
        text.append(buffer.data(), static_cast<size_t>(got));
    }
    return text;
}

bool exists_at(const host& machine, const std::string& path) {
    struct stat about {};
    return ::stat((machine.root + path).c_str(), &about) == 0;
}

uint32_t process_named(const host& machine, std::string_view name) {
    const auto close = [](DIR* open) { ::closedir(open); };
    const std::unique_ptr<DIR, decltype(close)> listing(::opendir((machine.root + "/proc").c_str()), close);
    while (const dirent* entry = listing ? ::readdir(listing.get()) : nullptr) {
        const auto pid = parse_number(entry->d_name, UINT32_MAX);
        const std::string comm = pid ? text_at(machine, std::string("/proc/") + entry->d_name + "/comm") : "";
        if (comm == std::string(name) + "\n") return static_cast<uint32_t>(*pid);
    }
    return 0;
}

result<std::string> ask_slurm(const host& machine, const std::string& name, std::vector<std::string> arguments) {
    program what;
    what.arguments = {machine.root + machine.slurm_bin + "/" + name};
    for (std::string& each : arguments) what.arguments.push_back(std::move(each));
    what.environment = {"PATH=/usr/bin:/bin", "LC_ALL=C"};
    // Else each Slurm knows its own place.
    if (const char* conf = std::getenv("SLURM_CONF")) what.environment.push_back(std::string("SLURM_CONF=") + conf);
    what.timeout_ms = machine.calls.timeout_ms;
    auto outcome = run_program(what);
    if (!outcome) return outcome.error();
    if (outcome->exit_status == 0) return std::move(outcome->output);
    std::string_view said = outcome->output;
    return fail(code::unavailable, machine.slurm_bin + "/" + name + " ended with " +
                                       std::to_string(outcome->exit_status) + ": " +
                                       printable(take_until(said, '\n'), 200));
}

std::string setting(const host& machine, const std::string& key) {
    const auto found = machine.settings.find(lower(key));
    return found == machine.settings.end() ? "" : found->second;
}

void look_at(host& machine) {
    if (const auto file = load_config(machine.root + machine.site_file)) machine.site = *file;
    machine.runs_slurmd = process_named(machine, "slurmd") != 0;
    machine.runs_slurmctld = process_named(machine, "slurmctld") != 0;
    machine.slurm_bin = find_slurm_bin(machine);
    const char* given = std::getenv("SLURM_CONF");
    machine.slurm_conf = given != nullptr && machine.root.empty() ? given : "/etc/slurm/slurm.conf";
    if (const auto shown = ask_slurm(machine, "scontrol", {"show", "config"})) {
        machine.settings = settings_of(*shown);
        if (const std::string conf = setting(machine, "SLURM_CONF"); !conf.empty()) machine.slurm_conf = conf;
        return;
    } else {
        machine.no_answer = shown.error().context;
    }
    machine.from_file = true;
    machine.settings = settings_of(text_at(machine, machine.slurm_conf));
}

}  // namespace varde::cli
