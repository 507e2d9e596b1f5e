// The clock, and what the promises are held to.  Faults are in faults.cc.
#include "simulation.h"

#include <algorithm>

namespace varde::simulate {

using store::generation_id;
using store::generation_name;

namespace {

constexpr uint64_t quick_ns = 200 * ns_per_ms;  // while a start is under way
constexpr uint64_t grace_ns = 30 * ns_per_s;    // from the end of a fault until what it has set off is over
constexpr uint64_t slack_ns = 20 * ns_per_s;    // beats and late slots
constexpr uint64_t lead_ns = 3 * ns_per_s;      // of the first proposal, in seconds to spare around it
constexpr uint64_t lead_max_ns = 60 * ns_per_s;

std::string seconds(uint64_t ns) { return std::to_string(ns / ns_per_s) + " s"; }

}  // namespace

simulation::simulation(const plan& what)
    : with(what), of(what.seed ^ 0x9e3779b97f4a7c15), run_storage(with), slurm(with, of) {
    draw_faults();
}

std::string simulation::story() const { return "seed " + std::to_string(with.seed) + "\n" + held.story(); }

void simulation::run() {
    for (uint64_t now_ns = ns_per_s; now_ns < with.length_ns && !broken() && !over_; now_ns = advance(now_ns)) {
        bring_faults(now_ns);
        tick_slurm(now_ns);
        move_training(now_ns);
        // Any order of the nodes is possible; where it begins is enough of a difference.
        const size_t count = agents_.size();
        const size_t first = count == 0 ? 0 : of.pick(0, count - 1);
        for (size_t i = 0; i < count && !over_; i++) {
            auto& one = *agents_[(first + i) % count];
            one.tick(now_ns);
            one.beat(now_ns);
        }
        bury_agents(now_ns);
        move_training(now_ns);
        count_loss(now_ns);
    }
}

// ---- The clock

bool simulation::all_well(uint64_t now_ns) const {
    if (starts_.empty() || !starts_.back().moving || failure_.open || now_ns < stalled_until_ns_) return false;
    const auto& hosts = slurm.hosts;
    const bool reached = std::all_of(hosts.begin(), hosts.end(), [now_ns](const host& one) {
        return one.reaches_storage(now_ns) && one.answers(now_ns);
    });
    return reached && std::all_of(agents_.begin(), agents_.end(), [](const auto& one) { return one->is_settled(); });
}

// A second per beat, less while a start is under way; nothing happens in the long while before the next proposal.
uint64_t simulation::advance(uint64_t now_ns) {
    const bool starting =
        !starts_.empty() && slurm.state() == job_state::running && starts_.back().training_count < with.node_count;
    uint64_t next_ns = now_ns + (starting ? quick_ns : with.pulse_ns);
    uint64_t due_ns = 0;
    for (const auto& one : agents_) due_ns = std::max(due_ns, one->due_ns());
    const uint64_t margin_ns = lead_ns + late_lead_ns_ + 4 * with.step_ns + 8 * ns_per_s;
    if (!all_well(now_ns)) busy_ns_ = now_ns;
    if (now_ns > busy_ns_ + 10 * ns_per_s + 4 * with.step_ns && due_ns > margin_ns)
        next_ns = std::max(next_ns, due_ns - margin_ns);
    return std::min(next_ns, std::max(next_fault_ns(), now_ns + ns_per_ms));
}

// ---- Slurm

void simulation::tick_slurm(uint64_t now_ns) {
    start* last = current();
    const bool drained = std::none_of(agents_.begin(), agents_.end(), [&](const auto& one) {
        return one->drains() && slurm.hosts[one->host()].answers(now_ns);
    });
    switch (slurm.tick(now_ns, drained)) {
    case cluster::event::none: break;
    case cluster::event::requeued:
        held.note(now_ns, "Slurm requeues the job by itself");
        end_start(now_ns);
        break;
    case cluster::event::started: begin_start(now_ns); break;
    }
    if (last != nullptr && last->ranks_alive && slurm.state() != job_state::running && now_ns >= slurm.killed_ns()) {
        last->ranks_alive = false;
        last->stop(now_ns);
    }
}

void simulation::begin_start(uint64_t now_ns) {
    auto& one = starts_.emplace_back();
    one.launch = "s" + std::to_string(++launches_);
    one.job_id = slurm.job();
    one.job_restarts = slurm.restarts();
    one.hosts = slurm.allocated();
    one.begun_ns = now_ns;
    one.ready_ns = now_ns + of.pick(with.launch_ns * 3 / 4, with.launch_ns * 5 / 4);
    one.step_ns = with.step_ns;
    held.note(now_ns, "the job starts as " + one.launch + " on " + std::to_string(one.hosts.size()) + " nodes");
    last_complete_step_ = 0;
    excused_ns_ = earlier_excused_ns_ = 0;
    late_lead_ns_ = 0;
    for (uint32_t index = 0; index < with.node_count; index++) {
        if (slurm.hosts[one.hosts[index]].answers(now_ns))
            agents_.push_back(std::make_unique<node_agent>(*this, one, index));
        else fail_start(now_ns, false);
    }
}

void simulation::end_start(uint64_t now_ns) {
    counted_.requeues++;
    batch_exit_ns_ = abort_ns_ = user_ns_ = UINT64_MAX;
    // What ends a start without a failure of it is a fault, too (a machine that came back anew, a user).
    if (!failure_.open) fail_start(now_ns, false);
    if (failure_.requeued_ns == 0) failure_.requeued_ns = now_ns;
}

void simulation::on_requeue(const start& by, uint64_t now_ns, bool taken) {
    held.note(now_ns, "an agent of " + by.launch + (taken ? " requeues the job" : " is refused a requeue"));
    if (!taken) return;
    const start& now = starts_.back();
    held.hold(&by == &now, now_ns, "a requeue that was meant for " + by.launch + " has ended " + now.launch);
    // A node that cannot load what all need is as good as dead; what was decided then may take effect a moment later.
    const bool starting = !now.moving || now_ns < now.base_ns + grace_ns;
    const bool cut_while_starting =
        starting && std::any_of(now.hosts.begin(), now.hosts.end(), [&](uint32_t index) {
            return slurm.hosts[index].storage_until_ns + grace_ns > now_ns && slurm.hosts[index].storage_until_ns != 0;
        });
    held.hold(now.failures > 0 || now_ns < healed_ns_ + grace_ns || cut_while_starting, now_ns,
              "the job is requeued, and nothing has failed");
    end_start(now_ns);
}

// A machine that has died is noticed in time, whoever led.
void simulation::on_noticed(const start& now, uint64_t now_ns) {
    if (!now.died || &now != &starts_.back() || failure_.requeued_ns != 0) return;
    const uint64_t patience_ns = std::max(with.silence_ns, 5 * with.step_ns / 2) + slack_ns;
    const uint64_t most_ns = now.failures * patience_ns + fault_ns_since_failure_;  // the next leader may die, too
    held.hold(now_ns - now.failed_ns <= most_ns, now_ns,
              "a dead machine was noticed after " + seconds(now_ns - now.failed_ns) + ", " + seconds(most_ns) +
                  " are the most");
}

void simulation::bury_agents(uint64_t now_ns) {
    const start* last = starts_.empty() ? nullptr : &starts_.back();
    std::erase_if(agents_, [&](const auto& one) {
        const bool over = &one->of() != last || slurm.state() != job_state::running;
        if (!over || !slurm.hosts[one->host()].answers(now_ns) || now_ns < slurm.killed_ns()) return false;
        const bool drained = !one->drains() || now_ns >= slurm.killed_ns() + grace_ns;
        if (drained) one->abandon();
        return drained;
    });
    while (starts_.size() > 1 && std::none_of(agents_.begin(), agents_.end(),
                                              [&](const auto& one) { return &one->of() == &starts_.front(); }))
        starts_.pop_front();
}

// ---- Training

void simulation::move_training(uint64_t now_ns) {
    start* one = current();
    if (one == nullptr) return;
    const bool may = one->ranks_alive && one->training_count == with.node_count && slurm.state() == job_state::running;
    const bool moves = may && std::all_of(one->hosts.begin(), one->hosts.end(), [&](uint32_t index) {
                           return slurm.hosts[index].answers(now_ns) && slurm.hosts[index].off_until_ns < one->begun_ns;
                       });
    if (moves) one->go(now_ns);
    else if (one->moving) one->stop(now_ns);
}

void simulation::on_trains(start& which, generation_id id, uint64_t now_ns) {
    if (!which.restored) {
        which.restored = id;
        which.base_step = id.step;
        held.note(now_ns, which.launch + " trains from " + (id.step == 0 ? "the beginning" : generation_name(id)));
        if (any_complete_ && !was_damaged_) check_rollback(id, now_ns);
    }
    held.hold(*which.restored == id, now_ns,
              which.launch + " trains from " + generation_name(*which.restored) + " on one node and from " +
                  generation_name(id) + " on another");
    held.hold(id.step == 0 || run_storage.has_all_packs(id), now_ns,
              generation_name(id) + " is restored, and a node does not have it");
    which.training_count++;
}

// What a failure may cost at most: the interval, the writing of what it was about to complete, the lead, and as much
// time as other faults have kept generations from becoming complete.
void simulation::check_rollback(generation_id restored, uint64_t now_ns) {
    if (!failure_.open || failure_.step <= restored.step) return;
    const uint64_t lost_ns = (failure_.step - restored.step) * with.step_ns;
    const uint64_t drain_ns = 3 * with.drain_ns / 2 + 10 * ns_per_s;
    const uint64_t most_ns = std::max(with.interval_ns, drain_ns + lead_ns) + drain_ns + 5 * with.step_ns +
                             late_lead_ns_ + failure_.excused_ns;
    held.hold(lost_ns <= most_ns, now_ns,
              seconds(lost_ns) + " of training are lost, " + seconds(most_ns) + " are the most");
}

void simulation::count_loss(uint64_t now_ns) {
    const start* one = current();
    if (!failure_.open || one == nullptr || !one->moving || one->begun_ns <= failure_.failed_ns) return;
    if (one->step(now_ns) <= one->restored->step) return;
    if (!failure_.by_person) {
        loss cost;
        cost.rollback_ns = (failure_.step - std::min(failure_.step, one->restored->step)) * with.step_ns;
        cost.detect_ns = failure_.requeued_ns - failure_.failed_ns;
        cost.requeue_ns = slurm.eligible_ns() - failure_.requeued_ns;
        cost.schedule_ns = one->begun_ns - slurm.eligible_ns();
        cost.load_ns = one->time_of(one->restored->step + 1) - one->begun_ns;
        losses_.push_back(cost);
    }
    failure_ = {};
}

// ---- Generations

// A fault may keep generations from becoming complete for as long as it lasts and `more_ns`, and shows for some
// intervals after that.
void simulation::excuse(uint64_t now_ns, uint64_t fault_ns, uint64_t more_ns) {
    fault_end_ns_ = std::max(fault_end_ns_, now_ns + fault_ns);
    excused_ns_ += fault_ns + more_ns;
    calm_ns_ = std::max(calm_ns_, now_ns + fault_ns + 2 * with.interval_ns + more_ns);
}

void simulation::on_late(uint64_t now_ns) {
    held.note(now_ns, "a node was late");
    late_lead_ns_ = std::min(2 * late_lead_ns_ + lead_ns, lead_max_ns);
    excuse(now_ns, 0, 2 * late_lead_ns_ + 10 * ns_per_s + 2 * with.drain_ns);
}

void simulation::on_failed(uint64_t now_ns) {
    held.note(now_ns, "a pack could not be sealed");
    excuse(now_ns, 0, with.interval_ns + 3 * with.drain_ns);
}

void simulation::on_complete(const start& which, generation_id id, uint64_t now_ns) {
    held.note(now_ns, generation_name(id) + " is complete");
    if (&which != &starts_.back() || id.step <= last_complete_step_) return;
    counted_.generations++;
    any_complete_ = true;
    const uint64_t gap_ns = (id.step - last_complete_step_) * with.step_ns;
    const uint64_t off_ns = 3 * with.step_ns + 3 * ns_per_s;
    const bool undisturbed = last_complete_step_ != 0 && newest_complete_ns_ >= calm_ns_ && !failure_.open &&
                             with.write_loss == 0 && with.write_delay == 0 &&
                             3 * with.drain_ns + 20 * ns_per_s < with.interval_ns;
    if (undisturbed) {
        held.hold(gap_ns + off_ns >= with.interval_ns && gap_ns <= with.interval_ns + off_ns, now_ns,
                  "the interval is " + seconds(gap_ns) + " instead of " + seconds(with.interval_ns));
    }
    last_complete_step_ = id.step;
    newest_complete_ns_ = now_ns;
    earlier_excused_ns_ = excused_ns_;
    excused_ns_ = now_ns < fault_end_ns_ ? fault_end_ns_ - now_ns + with.interval_ns + with.drain_ns : 0;
}

void simulation::retire(generation_id newest, uint64_t now_ns) {
    const auto before = run_storage.newest_complete();
    const auto removed = run_storage.retire(newest);
    if (!removed.empty())
        held.note(now_ns, generation_name(removed.back()) + " and " + std::to_string(removed.size() - 1) +
                              " older ones are retired");
    held.hold(!before || run_storage.newest_complete() == before, now_ns,
              "retention has deleted the newest complete generation");
    held.hold(!any_complete_ || was_damaged_ || run_storage.newest_complete().has_value(), now_ns,
              "no complete generation is left");
}

// ---- The end of a program

void simulation::on_batch_failed(uint64_t now_ns, const std::string& refusal) {
    held.note(now_ns, "the batch script failed, not requeued: " + refusal);
    if (slurm.state() != job_state::running) return;
    counted_.given_up++;
    slurm.fail(now_ns);
    end_start(now_ns);
    counted_.requeues--;
    failure_.by_person = true;
}

void simulation::on_refused(uint64_t now_ns, const std::string& why) {
    held.note(now_ns, "the start is refused: " + why);
    held.hold(was_damaged_, now_ns, "a start is refused where no generation was damaged: " + why);
    counted_.given_up++;
    over_ = true;
}

}  // namespace varde::simulate
