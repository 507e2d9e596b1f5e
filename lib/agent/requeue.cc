// Decisions about requeueing.
#include "agent/requeue.h"

#include "base/clock.h"

#include <sys/wait.h>
#include <utility>

namespace varde::agent {

namespace {

constexpr uint64_t requeue_again_ns = 2 * ns_per_s;

}  // namespace

std::string budget_refusal(const restart_budget& budget) {
    if (budget.restarts < budget.most) return {};
    return "the budget of " + std::to_string(budget.most) + " restarts is used up (--ckpt-max-restarts)";
}

std::string again_refusal(uint64_t newest_step, uint64_t restored_step, const restart_budget& budget) {
    if (newest_step <= restored_step)
        return "no new generation since the last start, the same failure would come again";
    return budget_refusal(budget);
}

std::string ending_of(int wait_status) {
    return WIFEXITED(wait_status) ? "exit code " + std::to_string(WEXITSTATUS(wait_status))
                                  : "signal " + std::to_string(WTERMSIG(wait_status));
}

std::string batch_refusal(const batch_end& end, const exit_codes& final_exits, const restart_budget& budget) {
    if (WIFEXITED(end.wait_status) && final_exits.test(static_cast<size_t>(WEXITSTATUS(end.wait_status))))
        return ending_of(end.wait_status) + " is final (--ckpt-final-exits)";
    return again_refusal(end.newest_step, end.restored_step, budget);
}

result<void> check_requeue(const job_facts& facts, uint64_t restarts) {
    if (facts.restarts != restarts) {
        return fail(code::fenced,
                    "the job has been restarted already (" + std::to_string(facts.restarts) + " restarts)");
    }
    if (facts.state != "RUNNING") return fail(code::busy, "the job is " + facts.state + ", not running");
    if (!facts.batch) return fail(code::invalid, "only jobs of sbatch can be requeued");
    return {};
}

bool requeue_wish::ask() noexcept { return !std::exchange(asked_, true); }

bool requeue_wish::begin(uint64_t now_ns) noexcept {
    if (under_way_ || done_ || now_ns < again_ns_) return false;
    under_way_ = true;
    return true;
}

void requeue_wish::end(const result<void>& how, uint64_t now_ns) noexcept {
    under_way_ = false;
    again_ns_ = now_ns + requeue_again_ns;
    done_ = how.has_value() || how.error().what == code::fenced;
}

}  // namespace varde::agent
