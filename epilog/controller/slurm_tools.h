// What the controller hook asks of Slurm: squeue and scontrol of the running Slurm, each with a deadline.
//
// Outputs hold words of users (comment) and are read as such.  One value decides nothing of another: fields come in
// an order in which those of Slurm stand before those of users.  Blocking; one thread.
#pragma once

#include "base/options.h"
#include "base/result.h"
#include "base/slurm_nodes.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace varde::controller {

struct job_facts {
    std::string state;              // "COMPLETING", "PENDING", ...
    std::optional<uint64_t> end_s;  // wall clock; none: not known, or never
    std::string excluded;           // a node list, "" for none
    std::string comment;
};

// One line of `squeue --format=%T|%e|%x|%k`.  Pure.
result<job_facts> parse_job(std::string_view line);

// Does Slurm requeue the job?  While nodes are still being cleaned up, squeue says COMPLETING for requeued and ended
// jobs alike; but the end of a job that has ended is in the past, and one that waits for its next start has its end
// ahead.  Pure.
enum class fate : uint8_t { ended, completing, pending };
fate fate_of(const job_facts& job, uint64_t now_s) noexcept;

// SlurmdPort of `scontrol show config`; 6818 where it is not said.  Pure.
uint16_t parse_slurmd_port(std::string_view config);

// What our agents say of nodes in the job's comment: "varde: node2,node3 silent, ...", "cut off" or "failing".  The
// comment is the user's field: only names of `nodes` count.  Pure.
struct bad_nodes {
    std::vector<std::string> names;
    std::string_view why;  // one of three constants, "" where there are none
};
bad_nodes named_bad(std::string_view comment, const std::vector<std::string>& nodes);

// "7", or "7_3" for a task of an array: scontrol would take the number of the task that has the array's own for all
// of them. Pure.
result<std::string> read_job_name(environment get);

class slurm_tools {
public:
    slurm_tools(std::string bin_directory, std::vector<std::string> environment)
        : bin_directory_(std::move(bin_directory)), environment_(std::move(environment)) {}

    // none: Slurm knows the job no more.
    result<std::optional<job_facts>> job(const std::string& job) const;
    result<std::string> pending_reason(
        const std::string& job) const;  // "BeginTime", "Resources", ...; "" where it is gone
    result<std::vector<std::string>> expand(const std::string& node_list) const;
    result<std::vector<node_facts>> nodes(const std::string& node_list) const;  // "": all of the cluster
    result<uint16_t> slurmd_port() const;
    result<void> set_down(const std::vector<std::string>& nodes, const std::string& reason) const;
    result<void> set_node_comment(const std::string& node, const std::string& comment) const;
    result<void> update_job(const std::string& job, const std::string& assignment) const;
    result<void> release(const std::string& job) const;
    result<std::string> extra(const std::string& job) const;  // our text in the field Extra; "" where there is none
    result<std::string> running_on(const std::string& job) const;  // its node list; "" where it does not run

private:
    result<std::string> run(const char* program, std::vector<std::string> arguments) const;

    std::string bin_directory_;
    std::vector<std::string> environment_;
};

// "a,b,c"
std::string join(const std::vector<std::string>& names);

}  // namespace varde::controller
