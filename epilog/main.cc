// varde-epilog: slurm.conf's Epilog=.  Runs as root on each node of a job after everything of the job has ended.
//
// Exits 0 whatever happens: any other code drains the node.  What it could not do is in the journal.
#include "config/config.h"
#include "epilog/drain.h"
#include "epilog/stale.h"
#include "prolog/job_directory.h"
#include "prolog/log.h"
#include "prolog/request.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/stat.h>
#include <syslog.h>

namespace {

using namespace varde;

struct arguments {
    std::string run_directory = node::run_directory_path;
    std::string config = config_path;
    bool boot = false;
};

// slurmd starts us with nothing but the environment.  --boot is varde-clean.service's; the others are for tests and for
// trying by hand.
bool read_arguments(int count, char** given, arguments& to) {
    for (int i = 1; i < count; i += 2) {
        if (std::strcmp(given[i], "--boot") == 0) {
            to.boot = true;
            i--;
            continue;
        }
        std::string* target = std::strcmp(given[i], "--run-dir") == 0  ? &to.run_directory
                              : std::strcmp(given[i], "--config") == 0 ? &to.config
                                                                       : nullptr;
        if (target == nullptr || i + 1 == count) {
            std::fprintf(stderr, "usage: varde-epilog [--boot] [--run-dir DIR] [--config FILE]\n");
            return false;
        }
        *target = given[i + 1];
    }
    return true;
}

void run(int count, char** given) {
    arguments where;
    if (!read_arguments(count, given, where)) return;
    if (where.boot) {
        node::open_log("varde-epilog", "");
        return node::end_stale_jobs(where.run_directory);
    }
    const auto job_id = node::read_job_id(node::own_variable);
    node::open_log("varde-epilog", job_id ? std::to_string(*job_id) : "");
    if (!job_id) return node::log_line(LOG_ERR, job_id.error().context + "; nothing is cleaned up");
    // Not by the job's options: what the prolog has made is removed whatever they say.  Most jobs have nothing here.
    struct stat about {};
    if (::lstat((where.run_directory + "/" + std::to_string(*job_id)).c_str(), &about) != 0) return;
    auto site = load_config(where.config);
    if (!site) node::log_line(LOG_WARNING, site.error().context + "; draining for the default time");
    const uint32_t drain_s = site ? site->drain_s : config{}.drain_s;
    const auto ended = node::end_job(where.run_directory, *job_id, static_cast<int>(drain_s * 1000));
    if (!ended) node::log_line(LOG_ERR, ended.error().context);
    else node::end_left_jobs(where.run_directory);
}

}  // namespace

int main(int argument_count, char** given) {
    std::signal(SIGPIPE, SIG_IGN);  // who reads stderr may be gone: no reason to drain the node
    try {
        run(argument_count, given);
    } catch (...) {
        // Only memory can be short here.
        node::log_line(LOG_ERR, "couldn't clean up: out of memory; the next prolog or epilog of the job does");
    }
    return 0;
}
