// The numbers in /run/varde, one by one.
#include "epilog/stale.h"

#include "base/units.h"
#include "epilog/drain.h"
#include "prolog/job_directory.h"
#include "prolog/log.h"
#include "prolog/state.h"

#include <dirent.h>
#include <memory>
#include <syslog.h>
#include <vector>

namespace varde::node {

namespace {

std::vector<uint32_t> jobs_in(const std::string& run_directory) {
    const auto close = [](DIR* open) { ::closedir(open); };
    const std::unique_ptr<DIR, decltype(close)> listing(::opendir(run_directory.c_str()), close);
    std::vector<uint32_t> jobs;
    while (const dirent* entry = listing ? ::readdir(listing.get()) : nullptr) {
        const auto number = parse_number(entry->d_name, UINT32_MAX - 1);
        if (number && *number != 0) jobs.push_back(static_cast<uint32_t>(*number));
    }
    return jobs;
}

result<void> end_stale_job(const std::string& run_directory, uint32_t job_id) {
    {
        auto directory = job_directory::open(run_directory, job_id);
        if (!directory) return std::move(directory).error();
        if (agent_alive(known_state(*directory, job_id))) return {};
    }
    auto ended = end_job(run_directory, job_id, 0);
    if (ended) log_line(LOG_INFO, "removed what job " + std::to_string(job_id) + " left before this start");
    return ended;
}

}  // namespace

void end_stale_jobs(const std::string& run_directory) {
    for (const uint32_t job_id : jobs_in(run_directory)) {
        const auto ended = end_stale_job(run_directory, job_id);
        if (!ended) log_line(LOG_ERR, ended.error().context);
    }
}

}  // namespace varde::node
