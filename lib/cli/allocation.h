// What `varde run` asks of Slurm about its job: steps, and which nodes can be used.  Blocking, with deadlines; any
// thread.
#pragma once

#include "agent/slurm.h"
#include "base/result.h"
#include "base/slurm_nodes.h"
#include "cli/step_nodes.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace varde::cli {

// Slurm itself would start a step there: a node that is to be drained still runs what its job starts.  Pure.
bool is_up(const node_facts& node) noexcept;

class allocation {
public:
    // `bin_directory`: of the srun that starts the step.
    allocation(std::string bin_directory, uint64_t job_id)
        : bin_directory_(std::move(bin_directory)), job_id_(job_id) {}

    agent::slurm job() const { return {bin_directory_, job_id_}; }
    // The step of the srun that is `process`, with its layout where Slurm tells it.
    struct step {
        uint32_t number = 0;
        std::vector<step_node> nodes;
    };
    result<step> find(pid_t process, const std::string& host) const;
    // In Slurm's order: nodes that the job has, that are not known as `dead`, that Slurm takes for well, and whose
    // slurmd answers.
    result<std::vector<std::string>> usable_nodes(const std::vector<std::string>& dead) const;
    // Kills what is left of a step.  Does not wait: with a dead node among its nodes that takes scancel ten seconds.
    result<void> kill_step(uint32_t number) const;

private:
    result<std::string> ask(const char* program, std::vector<std::string> arguments) const;
    result<std::vector<std::string>> expand(const std::string& node_list) const;

    std::string bin_directory_;
    uint64_t job_id_;
};

}  // namespace varde::cli
