// What goes wrong in a seed.
#include "simulation.h"

#include <algorithm>

namespace varde::simulate {

namespace {

constexpr uint64_t never_ns = UINT64_MAX;
constexpr uint64_t peers_wait_ns = 60 * ns_per_s;  // after so long without a peer the ranks give up

}  // namespace

void simulation::draw_faults() {
    for (uint32_t i = 0; i < with.deaths_planned; i++)
        planned_deaths_ns_.push_back(of.pick(3600 * ns_per_s, with.length_ns - 3600 * ns_per_s));
    std::sort(planned_deaths_ns_.begin(), planned_deaths_ns_.end());
    death_ns_ = of.until_next(with.deaths_per_s);
    cut_ns_ = of.until_next(with.cuts_per_s);
    stall_ns_ = of.until_next(with.stalls_per_s);
    crash_ns_ = of.until_next(with.crashes_per_s);
    outage_ns_ = of.until_next(with.outages_per_s);
}

uint64_t simulation::next_fault_ns() const {
    const uint64_t planned_ns = planned_deaths_ns_.empty() ? never_ns : planned_deaths_ns_.front();
    return std::min(
        {death_ns_, cut_ns_, stall_ns_, crash_ns_, outage_ns_, abort_ns_, batch_exit_ns_, user_ns_, planned_ns});
}

// Every second fault of a kind comes close to the one before it: in a restart, in a commit, two at once.
uint64_t simulation::next_of(double per_s, uint64_t now_ns) {
    return now_ns + (of.chance(0.3) ? of.pick(0, 120) * ns_per_s : of.until_next(per_s));
}

void simulation::bring_faults(uint64_t now_ns) {
    if (!planned_deaths_ns_.empty() && now_ns >= planned_deaths_ns_.front()) {
        planned_deaths_ns_.pop_front();
        kill_machine(now_ns, with.length_ns);
    }
    if (now_ns >= death_ns_) {
        // Some are back before Slurm has noticed.
        kill_machine(now_ns, of.chance(0.5) ? of.pick(60, 280) * ns_per_s : of.pick(300, 7200) * ns_per_s);
        death_ns_ = next_of(with.deaths_per_s, now_ns);
    }
    if (now_ns >= cut_ns_) {
        cut(now_ns);
        cut_ns_ = next_of(with.cuts_per_s, now_ns);
    }
    if (now_ns >= stall_ns_) {
        const uint64_t for_ns = of.pick(5, 300) * ns_per_s;
        held.note(now_ns, "the storage stalls for " + std::to_string(for_ns / ns_per_s) + " s");
        stalled_until_ns_ = std::max(stalled_until_ns_, now_ns + for_ns);
        excuse(now_ns, for_ns, with.interval_ns + with.drain_ns);
        fault_ns_since_failure_ += for_ns + with.silence_ns;
        stall_ns_ = now_ns + for_ns + of.until_next(with.stalls_per_s);
    }
    if (now_ns >= outage_ns_) {
        const uint64_t for_ns = of.pick(10, 200) * ns_per_s;
        held.note(now_ns, "slurmctld is away for " + std::to_string(for_ns / ns_per_s) + " s");
        slurm.away_until_ns = now_ns + for_ns;
        fault_ns_since_failure_ += for_ns;
        outage_ns_ = now_ns + for_ns + of.until_next(with.outages_per_s);
    }
    if (now_ns >= crash_ns_ || now_ns >= abort_ns_) {
        crash(now_ns);
        abort_ns_ = never_ns;
        if (now_ns >= crash_ns_) crash_ns_ = next_of(with.crashes_per_s, now_ns);
    }
    if (now_ns >= batch_exit_ns_) end_batch(now_ns);
    if (now_ns >= user_ns_) {
        user_ns_ = never_ns;
        if (slurm.requeue(now_ns)) {
            held.note(now_ns, "the user requeues the job");
            end_start(now_ns);
        }
    }
}

// The present start cannot go on, whatever it was at.
void simulation::fail_start(uint64_t now_ns, bool died) {
    auto& one = starts_.back();
    if (one.failures++ == 0) {
        one.failed_ns = now_ns;
        one.died = died && one.moving;
        fault_ns_since_failure_ = now_ns < slurm.away_until_ns ? slurm.away_until_ns - now_ns : 0;
        if (now_ns < stalled_until_ns_) fault_ns_since_failure_ += stalled_until_ns_ - now_ns;
        if (with.detection && with.deaths_planned == 0 && of.chance(0.1)) user_ns_ = now_ns + of.pick(5, 60) * ns_per_s;
    }
    if (failure_.open) return;
    counted_.failures++;
    failure_.open = true;
    failure_.failed_ns = now_ns;
    failure_.step = one.step(now_ns);
    failure_.excused_ns = excused_ns_ + earlier_excused_ns_;
}

void simulation::kill_machine(uint64_t now_ns, uint64_t off_ns) {
    const bool of_job =
        !starts_.empty() && slurm.state() == job_state::running && (with.deaths_planned > 0 || of.chance(0.9));
    const auto index = of_job ? starts_.back().hosts[of.pick(0, with.node_count - 1)]
                              : static_cast<uint32_t>(of.pick(0, slurm.hosts.size() - 1));
    auto& one = slurm.hosts[index];
    if (!one.alive(now_ns)) return;
    held.note(now_ns, "n" + std::to_string(index) + " dies");
    const bool hit = slurm.state() == job_state::running &&
                     std::find(slurm.allocated().begin(), slurm.allocated().end(), index) != slurm.allocated().end();
    if (hit) {
        fail_start(now_ns, true);
        if (with.deaths_planned == 0 && of.chance(0.3)) abort_ns_ = now_ns + of.pick(2, 20) * ns_per_s;
    }
    one.off_until_ns = now_ns + off_ns;
    std::erase_if(agents_, [index](const auto& each) { return each->host() == index; });
    move_training(now_ns);
}

// From its peers and slurmctld, from the storage, or from both.
void simulation::cut(uint64_t now_ns) {
    const auto index = static_cast<uint32_t>(of.pick(0, slurm.hosts.size() - 1));
    auto& one = slurm.hosts[index];
    const uint64_t for_ns = of.chance(0.5) ? of.pick(2, 60) * ns_per_s : of.pick(60, 1200) * ns_per_s;
    const uint64_t kind = of.pick(0, 2);
    held.note(now_ns, "n" + std::to_string(index) + " is cut off from " +
                          (kind == 0   ? "the storage"
                           : kind == 1 ? "its peers"
                                       : "everything") +
                          " for " + std::to_string(for_ns / ns_per_s) + " s");
    excuse(now_ns, for_ns, 2 * with.interval_ns + with.drain_ns);
    fault_ns_since_failure_ += for_ns;
    if (kind != 1) one.storage_until_ns = std::max(one.storage_until_ns, now_ns + for_ns);
    if (kind == 0) return;
    one.network_until_ns = std::max(one.network_until_ns, now_ns + for_ns);
    const bool hit = slurm.state() == job_state::running &&
                     std::find(slurm.allocated().begin(), slurm.allocated().end(), index) != slurm.allocated().end();
    if (!hit) return;
    fail_start(now_ns, false);
    // A short one is survived; what it has set off may come a moment later.
    if (for_ns > peers_wait_ns) abort_ns_ = std::min(abort_ns_, now_ns + peers_wait_ns);
    else healed_ns_ = std::max(healed_ns_, now_ns + for_ns);
    move_training(now_ns);
}

void simulation::crash(uint64_t now_ns) {
    start* one = current();
    if (one == nullptr || slurm.state() != job_state::running || !one->ranks_alive || one->training_count == 0) return;
    held.note(now_ns, "the ranks have ended");
    fail_start(now_ns, false);
    one->ranks_alive = false;
    one->stop(now_ns);
    batch_exit_ns_ = now_ns + of.pick(1, 5) * ns_per_s;
}

// On the first node: its plugin asks its agent.  Where that is away Slurm alone sees the end.
void simulation::end_batch(uint64_t now_ns) {
    batch_exit_ns_ = never_ns;
    const start& one = starts_.back();
    const host& batch = slurm.hosts[one.hosts[0]];
    if (slurm.state() != job_state::running || !batch.alive(now_ns) || batch.off_until_ns >= one.begun_ns) return;
    if (now_ns < slurm.away_until_ns || !batch.answers(now_ns)) {
        batch_exit_ns_ = std::max(slurm.away_until_ns, batch.network_until_ns);  // its slurmd tells it then
        return;
    }
    for (auto& each : agents_) {
        if (&each->of() == &one && each->host() == one.hosts[0]) return each->on_batch_exit(now_ns);
    }
}

}  // namespace varde::simulate
