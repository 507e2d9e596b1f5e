// varde-prolog: slurm.conf's Prolog=.  Runs as root on each node of a job before anything of the job does.
//
// Exits 0 whatever happens: any other code drains the node and holds the job, and no failure of ours is a reason for
// that.  The outcome is in /run/varde/JOBID/state.json and, if it is bad, in the journal.
#include "base/units.h"
#include "config/config.h"
#include "prolog/log.h"
#include "prolog/setup.h"
#include "prolog/slurm_host.h"
#include "prolog/storage_network.h"

#include <array>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <syslog.h>
#include <unistd.h>

namespace {

using namespace varde;

// varde-agent lies beside this program.
std::string agent_beside_us() {
    std::array<char, PATH_MAX> path{};
    const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
    const std::string self = length > 0 ? std::string(path.data(), static_cast<size_t>(length)) : "";
    return self.substr(0, self.rfind('/') + 1) + "varde-agent";
}

// slurmd starts us with nothing but the environment; the options are for tests and for trying by hand.
bool read_arguments(int count, char** arguments, node::places& where) {
    for (int i = 1; i < count; i += 2) {
        std::string* target = std::strcmp(arguments[i], "--run-dir") == 0  ? &where.run_directory
                              : std::strcmp(arguments[i], "--config") == 0 ? &where.config
                              : std::strcmp(arguments[i], "--agent") == 0  ? &where.agent
                                                                           : nullptr;
        if (target == nullptr || i + 1 == count) {
            std::fprintf(stderr, "usage: varde-prolog [--run-dir DIR] [--config FILE] [--agent PROGRAM]\n");
            return false;
        }
        *target = arguments[i + 1];
    }
    return true;
}

void run(int count, char** arguments) {
    node::places where{node::run_directory_path, config_path, agent_beside_us()};
    if (!read_arguments(count, arguments, where)) return;
    const auto job_id = node::read_job_id(node::own_variable);
    node::open_log("varde-prolog", job_id ? std::to_string(*job_id) : "");
    if (!job_id) return node::log_line(LOG_ERR, job_id.error().context + "; the job runs without an agent");
    const auto asked = node::read_request(node::own_variable);
    if (asked && !asked->wish.wanted()) return;
    if (const auto missing = node::missing_prolog_flags_here()) node::log_line(LOG_WARNING, *missing);
    const node::state made = node::set_up(asked, *job_id, where);
    if (!made.ready) node::log_line(LOG_WARNING, "degraded: " + made.reason);
    const auto& storage = made.storage;
    const std::string network = node::describe_storage(storage);
    // Where it is the reason of `degraded`, it has been said.
    if (!network.empty() && (storage.problem.empty() || made.reason.find(storage.problem) == std::string::npos))
        node::log_line(storage.problem.empty() ? LOG_INFO : LOG_WARNING, network);
    if (!made.directory_problem.empty()) node::log_line(LOG_WARNING, made.directory_problem);
}

}  // namespace

int main(int argument_count, char** arguments) {
    // Most jobs ask for nothing: they are gone again before anything else is looked at.
    if (std::getenv("SPANK_VARDE_INTERVAL") == nullptr) return 0;
    // Who reads stderr may be gone, and so may the agent at its gate: no reason to end by a signal and drain the node.
    std::signal(SIGPIPE, SIG_IGN);
    try {
        run(argument_count, arguments);
    } catch (...) {
        // Only memory can be short here.
        node::log_line(LOG_ERR, "couldn't set up the node: out of memory; the job runs without an agent");
    }
    return 0;
}
