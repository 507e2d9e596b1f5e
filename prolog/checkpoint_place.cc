// --ckpt-dir and --ckpt-name, with what Slurm tells the prolog.
#include "prolog/checkpoint_place.h"

#include "base/limits.h"

namespace varde::node {

namespace {

constexpr std::string_view default_directory = "checkpoints";

// Where the first pattern of the job's name stands; npos: nowhere.
size_t find_job_name(std::string_view pattern) {
    for (size_t at = pattern.find('%'); at != std::string_view::npos && at + 1 < pattern.size();
         at = pattern.find('%', at + 2))
        if (pattern[at + 1] == 'x') return at;
    return std::string_view::npos;
}

}  // namespace

std::optional<checkpoint_place> place_of(const request& job) {
    checkpoint_place found;
    found.run_name = job.wish.name;
    std::string pattern = job.wish.directory;
    if (job.job_name.empty()) {
        const size_t unknown = find_job_name(pattern);
        if (unknown != std::string::npos) {
            const size_t slash = pattern.rfind('/', unknown);
            if (slash == std::string::npos || slash == 0) return std::nullopt;
            pattern.resize(slash);
            found.run_name.clear();
        }
    }
    const std::string user = job.user.empty() ? std::to_string(job.uid) : job.user;
    const auto expanded = pattern.empty() ? result<std::string>(std::string(default_directory))
                                          : expand_directory(pattern, {user, std::to_string(job.job_id), job.job_name});
    if (!expanded) return std::nullopt;
    found.directory = *expanded;
    if (found.directory.front() != '/') {
        if (!job.work_directory.starts_with('/')) return std::nullopt;
        found.directory = job.work_directory + "/" + found.directory;
    }
    if (found.directory.size() >= limits::path_bytes_max) return std::nullopt;
    return found;
}

}  // namespace varde::node
