// Whether and when a job is started again.
//
// Pure, as in leader.h: time and facts come in, so tests and the simulation drive the same code as the agent.
#pragma once

#include "agent/slurm.h"
#include "base/exit_codes.h"

#include <cstdint>
#include <string>

namespace varde::agent {

struct restart_budget {
    uint64_t restarts = 0;  // so far
    uint64_t most = 0;      // --ckpt-max-restarts
};
// "" while one more is within the budget.
std::string budget_refusal(const restart_budget& budget);

// Why a job that has failed in a way that may come again is not started again, "" where it is: each start must have
// brought it forward.
std::string again_refusal(uint64_t newest_step, uint64_t restored_step, const restart_budget& budget);

// The same of a job whose batch script has failed.
struct batch_end {
    int wait_status = 0;
    uint64_t newest_step = 0;    // the newest that is sealed
    uint64_t restored_step = 0;  // where this start began
};
std::string batch_refusal(const batch_end& end, const exit_codes& final_exits, const restart_budget& budget);
std::string ending_of(int wait_status);  // "exit code 3", "signal 9"

// What keeps the start that began after `restarts` restarts from requeueing its job.  fenced: it has been requeued
// since, by another node, by Slurm or by the user.  busy: it is ending or being requeued, which shows as soon as that
// is over.
result<void> check_requeue(const job_facts& facts, uint64_t restarts);

// One start's wish to be requeued: whoever sees a failure asks, one call of Slurm at a time carries it out, and is made
// again until the job is requeued, by us or by others.
class requeue_wish {
public:
    bool ask() noexcept;                   // true: nobody had
    bool begin(uint64_t now_ns) noexcept;  // true: make the call now, and tell its end
    void end(const result<void>& how, uint64_t now_ns) noexcept;

    bool asked() const noexcept { return asked_; }
    bool done() const noexcept { return done_; }

private:
    bool asked_ = false;
    bool under_way_ = false;
    bool done_ = false;
    uint64_t again_ns_ = 0;
};

}  // namespace varde::agent
