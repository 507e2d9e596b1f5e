// The numbers in /run/varde, one by one.
#include "epilog/stale.h"

#include "base/units.h"
#include "epilog/drain.h"
#include "prolog/job_directory.h"
#include "prolog/log.h"
#include "prolog/state.h"

#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <syslog.h>
#include <unistd.h>
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

enum class which : uint8_t { all, left };

result<void> end_stale_job(const std::string& run_directory, uint32_t job_id, which wanted) {
    {
        auto directory = job_directory::open(run_directory, job_id);
        if (!directory) return std::move(directory).error();
        if (wanted == which::left && ::faccessat(directory->fd(), left_name, F_OK, AT_SYMLINK_NOFOLLOW) != 0) return {};
        if (agent_alive(known_state(*directory, job_id))) return {};
    }
    auto ended = end_job(run_directory, job_id, 0);
    if (ended) log_line(LOG_INFO, "removed what job " + std::to_string(job_id) + " had left");
    return ended;
}

void end_jobs(const std::string& run_directory, which wanted) {
    for (const uint32_t job_id : jobs_in(run_directory)) {
        const auto ended = end_stale_job(run_directory, job_id, wanted);
        if (!ended) log_line(LOG_ERR, ended.error().context);
    }
}

}  // namespace

void end_stale_jobs(const std::string& run_directory) { end_jobs(run_directory, which::all); }
void end_left_jobs(const std::string& run_directory) { end_jobs(run_directory, which::left); }

}  // namespace varde::node
