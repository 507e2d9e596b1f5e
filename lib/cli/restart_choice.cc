// The rules of a restart in place, the first that holds wins.
#include "cli/restart_choice.h"

namespace varde::cli {

choice choose_move(const step_end& end) {
    if (end.stopped) return {next_move::finish, "told to end: the step is not started again"};
    if (end.exit_status && *end.exit_status == 0) return {next_move::finish, ""};
    if (end.job_state.empty())
        return {next_move::finish, "Slurm does not say how the job is: the step is not started again"};
    if (end.job_state != "RUNNING")
        return {next_move::finish, "the job is " + end.job_state + ": the step is not started again"};
    // A dead node is no failure that would come again; any other may be, unless training got on since.
    const agent::batch_end how{end.exit_status.value_or(0) << 8, end.progress ? 1U : 0U, 0};  // as a wait status
    const std::string refusal = end.dead.empty() ? agent::batch_refusal(how, end.final_exits, end.budget)
                                                 : agent::budget_refusal(end.budget);
    if (!refusal.empty()) return {next_move::finish, "not started again: " + refusal};
    if (end.enough_nodes) return {next_move::restart, ""};
    // Without a dead node the nodes are away for a reason of Slurm's, which then acts.
    if (end.dead.empty()) return {next_move::finish, "not started again: too few nodes are left"};
    return {next_move::requeue, "no spare node is left: the job is requeued"};
}

}  // namespace varde::cli
