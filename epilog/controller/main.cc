// varde-controller: slurm.conf's EpilogSlurmctld=.  Runs as SlurmUser on the controller whenever a job's allocation
// ends.
//
// Slurm waits for this program before it lets a requeued job start: so it leaves at once, and a helper in a session
// of its own does the work, with a deadline that the kernel enforces.  Exits 0 whatever happens; what was done is in
// the journal.
#include "config/config.h"
#include "epilog/controller/helper.h"
#include "prolog/log.h"
#include "prolog/request.h"
#include "prolog/slurm_host.h"
#include "prolog/text_file.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/syscall.h>
#include <syslog.h>
#include <unistd.h>

namespace {

using namespace varde;

constexpr unsigned grace_s = 15;  // for a tool that runs at the end of the helper's own deadline

// slurmctld gives its hooks no SLURM_CONF; its own environment may have one (we are the same user).
std::string slurm_conf() {
    if (const char* given = std::getenv("SLURM_CONF")) return given;
    const auto theirs = node::read_text("/proc/" + std::to_string(::getppid()) + "/environ");
    if (!theirs) return {};
    const std::string all = std::string(1, '\0') + *theirs;
    const std::string name = std::string(1, '\0') + "SLURM_CONF=";
    const size_t at = all.find(name);
    return at == std::string::npos ? std::string() : std::string(all.c_str() + at + name.size());
}

// Times as seconds since 1970, whatever the site likes to read.
std::vector<std::string> tool_environment() {
    std::vector<std::string> made{"PATH=/usr/bin:/bin", "LANG=C", "SLURM_TIME_FORMAT=%s"};
    const std::string conf = slurm_conf();
    if (!conf.empty()) made.push_back("SLURM_CONF=" + conf);
    return made;
}

// Away from slurmctld's session and descriptors: it waits for whoever holds them, and when we have left it kills our
// process group.  So the parent leaves only after the child is in a session of its own.  True in the child.
bool detach() {
    int ends[2];
    const pid_t child = ::pipe2(ends, O_CLOEXEC) == 0 ? ::fork() : -1;
    if (child < 0) {
        const failure why = os_error(errno, "couldn't start the helper");
        node::log_line(LOG_ERR, why.context + "; the job starts when Slurm lets it");
        return false;
    }
    if (child > 0) {
        ::close(ends[1]);
        char none = 0;
        // The end of the pipe is the word: nobody writes.
        discard(static_cast<int>(::read(ends[0], &none, 1)), "a child that died has told as much as it could");
        return false;
    }
    ::setsid();
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int stream = 0; null >= 0 && stream <= 2; stream++) ::dup2(null, stream);
    ::syscall(SYS_close_range, 3, ~0U, 0);
    return ::chdir("/") == 0;
}

void run(const std::string& config_file, bool foreground) {
    const auto job = controller::read_job_name(node::own_variable);
    node::open_log("varde-controller", job ? *job : "");
    const char* nodes = std::getenv("SLURM_JOB_NODELIST");
    if (!job || nodes == nullptr)
        return node::log_line(LOG_ERR, job ? "SLURM_JOB_NODELIST is not set" : job.error().context);
    const auto asked = options_from_environment("SPANK_VARDE_", node::own_variable);
    // A value that is wrong has cost the job its agent; it has no claim on the controller either.
    if (!asked || !asked->wanted()) return;
    auto site = load_config(config_file);
    if (!site) return node::log_line(LOG_ERR, site.error().context + "; the job starts when Slurm lets it");
    const std::string bin_directory = node::find_bin_directory(site->bin_dir);
    const controller::slurm_tools slurm(bin_directory, tool_environment());
    if (!foreground && !detach()) return;
    ::alarm(site->free_s + grace_s);
    controller::helper_limits limits;
    limits.total_ms = static_cast<int>(site->free_s * 1000);
    controller::help({*job, nodes}, slurm, limits, [](const std::string& line) { node::log_line(LOG_NOTICE, line); });
}

}  // namespace

int main(int argument_count, char** arguments) {
    // Most jobs ask for nothing.
    if (std::getenv("SPANK_VARDE_INTERVAL") == nullptr) return 0;
    std::string config_file = config_path;
    bool foreground = false;
    // slurmctld gives no arguments; these are for tests and for trying by hand.
    for (int i = 1; i < argument_count; i++) {
        if (std::strcmp(arguments[i], "--foreground") == 0) foreground = true;
        else if (std::strcmp(arguments[i], "--config") == 0 && i + 1 < argument_count) config_file = arguments[++i];
        else {
            std::fprintf(stderr, "usage: varde-controller [--foreground] [--config FILE]\n");
            return 0;
        }
    }
    std::signal(SIGPIPE, SIG_IGN);  // who reads stderr may be gone
    try {
        run(config_file, foreground);
    } catch (...) {
        // Only memory can be short here.
        node::log_line(LOG_ERR, "couldn't free the job: out of memory; it starts when Slurm lets it");
    }
    return 0;
}
