// The simulated machines and Slurm: who is alive and reaches what, one job, Slurm's timers, the controller's helper.
#pragma once

#include "agent/slurm.h"
#include "plan.h"

#include <vector>

namespace varde::simulate {

struct host {
    uint64_t off_until_ns = 0;      // the machine is dead
    uint64_t storage_until_ns = 0;  // cut off from the storage
    uint64_t network_until_ns = 0;  // cut off from the other nodes and slurmctld
    bool down = false;              // what Slurm thinks

    bool alive(uint64_t now_ns) const noexcept { return now_ns >= off_until_ns; }
    bool reaches_storage(uint64_t now_ns) const noexcept { return alive(now_ns) && now_ns >= storage_until_ns; }
    bool answers(uint64_t now_ns) const noexcept { return alive(now_ns) && now_ns >= network_until_ns; }
};

enum class job_state : uint8_t { pending, running, completing };

class cluster {
public:
    cluster(const plan& with, dice& of);

    std::vector<host> hosts;
    uint64_t away_until_ns = 0;  // slurmctld

    job_state state() const noexcept { return state_; }
    agent::job_facts facts() const;
    uint64_t job() const noexcept { return job_; }
    uint64_t restarts() const noexcept { return restarts_; }
    const std::vector<uint32_t>& allocated() const noexcept { return allocated_; }
    // Of the job's latest requeue and start.
    uint64_t requeued_ns() const noexcept { return requeued_ns_; }
    uint64_t eligible_ns() const noexcept { return begin_ns_; }
    uint64_t killed_ns() const noexcept { return killed_ns_; }  // by then the ranks of nodes that answer are gone

    // `scontrol requeue`: whether it was taken.
    bool requeue(uint64_t now_ns);
    // The job has failed for good; somebody submits it again.
    void fail(uint64_t now_ns);
    enum class event : uint8_t { none, requeued, started };
    // Slurm's own timers and the helper's.
    event tick(uint64_t now_ns, bool drained);

private:
    bool notices_loss(uint64_t now_ns);
    bool is_free(uint64_t now_ns, bool drained);
    bool allocate(uint64_t now_ns);

    const plan& with_;
    dice& of_;
    job_state state_ = job_state::pending;
    uint64_t restarts_ = 0;
    uint64_t job_ = 1;
    uint64_t begin_ns_ = 0;
    uint64_t start_ns_ = 0;  // when the scheduler comes to it
    uint64_t requeued_ns_ = 0;
    uint64_t killed_ns_ = 0;
    uint64_t helped_ns_ = 0;  // by then the helper has set dead nodes DOWN
    std::vector<uint32_t> allocated_;
    std::vector<uint64_t> lost_since_ns_;  // per host: no answer to slurmctld's pings since
    std::vector<uint64_t> booted_ns_;      // per host: its latest start
    uint64_t started_ns_ = 0;
};

}  // namespace varde::simulate
