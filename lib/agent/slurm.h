// What the agent asks of Slurm, as the job's user, through the host's own scontrol.  Blocking with deadlines: keeper
// thread only.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace varde::agent {

struct job_facts {
    std::string id;     // for scontrol: "7", or "7_2" for a task of an array, where "7" would mean all of them
    std::string state;  // "RUNNING", "COMPLETING", ...
    uint64_t restarts = 0;
    bool batch = false;
    bool requeue = false;
    std::string comment;
    bool extra_is_free = true;  // the field Extra, which newer Slurms have, holds no text but ours
    std::string error_file;     // the batch script's standard error, which is its output unless the user has split them
};

class slurm {
public:
    // `bin_directory`: where the scontrol of the running Slurm is; empty: there is no Slurm, and every call fails with
    // `unavailable`.
    slurm(std::string bin_directory, uint64_t job_id, int timeout_ms = 10'000)
        : bin_directory_(std::move(bin_directory)), job_id_(job_id), timeout_ms_(timeout_ms) {}

    bool present() const noexcept { return !bin_directory_.empty() && job_id_ != 0; }
    result<job_facts> job() const;
    // Requeues the job if it is still the start that the caller belongs to (`restarts`), and running.
    result<void> requeue(uint64_t restarts, const std::string& comment) const;
    // Does the controller answer?  Cheap for it.
    result<void> reach() const;
    // Sets the comment unless the user has put a text of their own there; then Extra, where Slurm has it.
    result<void> comment(const std::string& text) const;
    // The same, and a line in the job's output: for what the user must know after the job's end.
    result<void> tell(const std::string& text) const;

private:
    result<std::string> scontrol(std::vector<std::string> arguments) const;
    result<void> publish(const job_facts& facts, const std::string& text) const;
    std::string bin_directory_;
    uint64_t job_id_;
    int timeout_ms_;                      // per call of scontrol
    mutable bool extra_refused_ = false;  // this Slurm has no Extra: asked once
};

// The value of KEY in the one-line output of `scontrol show job`; empty if it is not there.  Pure.
std::string field_of(const std::string& line, const std::string& key);
job_facts parse_job(const std::string& line);
// The line of this job: `show job` prints all tasks of an array, and all parts of a heterogeneous job, where the number
// is also theirs.
std::string line_of_job(const std::string& output, uint64_t job_id);

}  // namespace varde::agent
