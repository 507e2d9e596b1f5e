// What the agent asks of Slurm, as the job's user, through the host's own scontrol.  Blocking with deadlines: keeper thread only.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace varde::agent {

struct job_facts {
    std::string state;          // "RUNNING", "COMPLETING", ...
    uint64_t restarts = 0;
    bool batch = false;
    bool requeue = false;
    std::string comment;
};

class slurm {
public:
    // `bin_directory`: where the scontrol of the running Slurm is; empty: there is no Slurm, and every call fails with `unavailable`.
    slurm(std::string bin_directory, uint64_t job_id) : bin_directory_(std::move(bin_directory)), job_id_(job_id) {}

    bool present() const noexcept { return !bin_directory_.empty() && job_id_ != 0; }
    result<job_facts> job() const;
    // Requeues the job if it is still the start that the caller belongs to (`restarts`), and running.
    result<void> requeue(uint64_t restarts, const std::string& comment) const;
    // Sets the comment unless the user has put a text of their own there.
    result<void> comment(const std::string& text) const;

private:
    result<std::string> scontrol(std::vector<std::string> arguments) const;
    std::string bin_directory_;
    uint64_t job_id_;
};

// The value of KEY in the one-line output of `scontrol show job`; empty if it is not there.  Pure.
std::string field_of(const std::string& line, const std::string& key);
job_facts parse_job(const std::string& line);

}  // namespace varde::agent
