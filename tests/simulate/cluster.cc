// The simulated Slurm.
#include "cluster.h"

#include <algorithm>

namespace varde::simulate {

namespace {

constexpr uint64_t epilog_drain_ns = 30 * ns_per_s;  // epilog.drain_s
constexpr uint64_t person_ns = 900 * ns_per_s;       // somebody looks at a failed job and submits it again

}  // namespace

cluster::cluster(const plan& with, dice& of)
    : hosts(with.node_count + with.spare_count), with_(with), of_(of), lost_since_ns_(hosts.size(), 0),
      booted_ns_(hosts.size(), 0) {}

agent::job_facts cluster::facts() const {
    agent::job_facts facts;
    facts.id = std::to_string(job_);
    facts.state = state_ == job_state::running ? "RUNNING" : state_ == job_state::pending ? "PENDING" : "COMPLETING";
    facts.restarts = restarts_;
    facts.batch = facts.requeue = true;
    return facts;
}

bool cluster::requeue(uint64_t now_ns) {
    if (state_ != job_state::running || now_ns < away_until_ns) return false;
    state_ = job_state::completing;
    restarts_++;
    requeued_ns_ = now_ns;
    // Most programs end with SIGTERM, some only when KillWait is over.
    killed_ns_ = now_ns + (of_.chance(0.8) ? of_.pick(1, 3) * ns_per_s : of_.pick(3 * ns_per_s, with_.kill_wait_ns));
    helped_ns_ = now_ns + of_.pick(3, 6) * ns_per_s;
    return true;
}

void cluster::fail(uint64_t now_ns) {
    state_ = job_state::completing;
    job_++;
    restarts_ = 0;
    requeued_ns_ = now_ns + person_ns;
    killed_ns_ = now_ns;
    helped_ns_ = UINT64_MAX;
}

// A node that has not answered for SlurmdTimeout, or that has been started anew under its job.
bool cluster::notices_loss(uint64_t now_ns) {
    bool lost = false;
    for (uint32_t index = 0; index < hosts.size(); index++) {
        auto& one = hosts[index];
        const bool here = std::find(allocated_.begin(), allocated_.end(), index) != allocated_.end();
        if (one.answers(now_ns)) {
            const bool booted = one.off_until_ns > started_ns_ && state_ == job_state::running;
            lost = lost || (here && booted);
            lost_since_ns_[index] = 0;
            one.down = false;
            continue;
        }
        if (lost_since_ns_[index] == 0) lost_since_ns_[index] = now_ns + of_.pick(0, 100) * ns_per_s;  // the next ping
        if (now_ns < lost_since_ns_[index] + with_.slurmd_timeout_ns) continue;
        one.down = true;
        lost = lost || here;
    }
    return lost;
}

// The job's nodes are done with it, or written off.
bool cluster::is_free(uint64_t now_ns, bool drained) {
    if (now_ns < killed_ns_ || (!drained && now_ns < killed_ns_ + epilog_drain_ns)) return false;
    return std::all_of(allocated_.begin(), allocated_.end(), [&](uint32_t index) {
        if (with_.detection && now_ns >= helped_ns_ && !hosts[index].answers(now_ns)) hosts[index].down = true;
        return hosts[index].answers(now_ns) || hosts[index].down;
    });
}

bool cluster::allocate(uint64_t now_ns) {
    std::vector<uint32_t> found;
    for (uint32_t index = 0; index < hosts.size() && found.size() < with_.node_count; index++) {
        if (!hosts[index].down) found.push_back(index);
    }
    if (found.size() < with_.node_count) return false;
    allocated_ = std::move(found);
    started_ns_ = now_ns;
    state_ = job_state::running;
    return true;
}

cluster::event cluster::tick(uint64_t now_ns, bool drained) {
    if (now_ns < away_until_ns) return event::none;
    const bool lost = notices_loss(now_ns);
    if (state_ == job_state::running) return lost && requeue(now_ns) ? event::requeued : event::none;
    if (state_ == job_state::completing && is_free(now_ns, drained)) {
        state_ = job_state::pending;
        const bool helped = with_.detection && helped_ns_ != UINT64_MAX;
        begin_ns_ = std::max(requeued_ns_, now_ns) + (helped ? 3 * ns_per_s : with_.requeue_delay_ns);
        start_ns_ = begin_ns_ + of_.pick(1, 10) * ns_per_s;
    }
    if (state_ == job_state::pending && now_ns >= start_ns_ && allocate(now_ns)) return event::started;
    return event::none;
}

}  // namespace varde::simulate
