// Decisions from the roster.
#include "agent/leader.h"

#include "agent/contact.h"

#include <algorithm>
#include <utility>

namespace varde::agent {

using store::outcome;
using store::phase;

void last_step::see(const store::slot& slot) noexcept {
    if (slot.step_max < step) return;
    // Ranks of one step reach it together but for the roster's period: the first to say so is the nearest.
    wall_ns = slot.step_max > step || wall_ns == 0 ? slot.step_wall_ns : std::min(wall_ns, slot.step_wall_ns);
    step = slot.step_max;
}

void look_again(sighting& node, const store::slot* read, const start_identity& start, uint64_t now_ns,
                uint64_t period_ns) {
    const uint64_t since_ns = node.looked_ns == 0 ? 0 : now_ns - node.looked_ns;
    node.after_gap = node.looked_ns == 0 || since_ns > 3 * period_ns;
    node.looked_ns = now_ns;
    const bool ours = read != nullptr && read->launch == start.launch &&
                      (start.incarnation == 0 || read->incarnation == start.incarnation);
    if (ours && (!node.seen || read->sequence != node.slot.sequence)) {
        node.seen = true;
        node.slot = *read;
        node.quiet_ns = 0;
        return;
    }
    // At most two periods count per look: the time in which this node itself could not read is nobody's silence.
    node.quiet_ns += std::min(since_ns, 2 * period_ns);
}

bool is_silent(const sighting& node, uint64_t silence_ns) noexcept { return node.quiet_ns >= silence_ns; }

bool is_cut_off(const sighting& node) noexcept { return node.seen && node.slot.cut_off_ns >= contact_proof_ns; }

uint32_t leader_of(const view& what, uint64_t silence_ns) noexcept {
    for (uint32_t index = 0; index < what.self; index++) {
        if (!is_silent(what.nodes[index], silence_ns) && !is_cut_off(what.nodes[index])) return index;
    }
    return what.self;
}

bool is_later_start(const store::slot& there, const store::slot& mine) noexcept {
    return mine.job_id != 0 && there.job_id == mine.job_id && there.job_restarts > mine.job_restarts;
}

uint32_t slots_to_read(const view& what, uint64_t silence_ns) noexcept {
    const uint32_t leader = leader_of(what, silence_ns);
    return leader == what.self ? static_cast<uint32_t>(what.nodes.size()) : leader + 1;
}

outcome outcome_of(const store::slot& node, uint64_t step) noexcept {
    for (const auto& state : node.generations) {
        if (state.step == step && step != 0) return state.what;
    }
    return outcome::none;
}

// ---- schedule

namespace {

constexpr size_t samples_max = 32;
// A proposal that came too late somewhere doubles the lead, up to here: longer than any roster that is of use.
constexpr uint64_t lead_max_ns = 60'000'000'000;
constexpr uint64_t steps_ahead_min = 2;

bool all_training(const view& what) {
    return std::all_of(what.nodes.begin(), what.nodes.end(),
                       [](const sighting& node) { return node.seen && node.slot.now == phase::training; });
}

bool any_draining(const view& what) {
    return std::any_of(what.nodes.begin(), what.nodes.end(),
                       [](const sighting& node) { return node.seen && node.slot.drain_busy != 0; });
}

checkpoint_cost slowest(const view& what) {
    checkpoint_cost cost;
    for (const auto& node : what.nodes) {
        cost.stall_ns = std::max(cost.stall_ns, node.slot.stall_ns);
        cost.drain_ns = std::max(cost.drain_ns, node.slot.drain_ns);
    }
    return cost;
}

}  // namespace

void schedule::observe(const view& what) {
    uint64_t newest = 0;
    bool old_news = true;
    for (const auto& node : what.nodes) {
        if (!node.seen || node.slot.step_max < newest) continue;
        old_news = node.after_gap && (old_news || node.slot.step_max > newest);
        newest = node.slot.step_max;
    }
    if (newest_step_ns_ != 0 && newest <= newest_step_) return;
    // Who has just come to lead looks at slots that it had not looked at.  One step more there is no sign of training:
    // some ranks begin the step at which all then wait for a dead one.
    const bool waits = old_news && newest_step_ns_ != 0 && newest == newest_step_ + 1;
    newest_step_ = newest;
    if (waits) return;
    newest_step_ns_ = what.now_ns;
    samples_.push_back({newest, what.now_ns});
    if (samples_.size() > samples_max) samples_.pop_front();
}

uint64_t schedule::step_ns() const noexcept {
    if (samples_.size() < 3) return 0;
    const auto& first = samples_[1];  // the very first sample may be from before the first step
    const auto& last = samples_.back();
    return last.step > first.step ? (last.at_ns - first.at_ns) / (last.step - first.step) : 0;
}

uint64_t schedule::interval_ns() const noexcept {
    return options_.mtbf_ns == 0 ? options_.interval_ns : automatic_interval_ns(cost_, options_.mtbf_ns);
}

uint64_t schedule::stalled_ns(uint64_t now_ns) const noexcept {
    return newest_step_ns_ == 0 ? 0 : now_ns - newest_step_ns_;
}

// Has the open proposal come to an end?
void schedule::settle(const view& what) {
    if (!open_) return;
    bool all_sealed = true;
    bool failed = false;
    bool late = false;
    for (const auto& node : what.nodes) {
        const auto state = outcome_of(node.slot, proposed_step_);
        all_sealed = all_sealed && state == outcome::sealed;
        failed = failed || state == outcome::failed;
        late = late || state == outcome::late;
    }
    // An interval later, training beyond the step and nobody at work: its nodes never armed it, because another leader
    // had proposed a later one while this one was silent.  Nobody will ever report it.
    const bool lost = newest_step_ > proposed_step_ && what.now_ns >= due_ns_ && !any_draining(what);
    if (!all_sealed && !failed && !late && !lost) return;
    open_ = false;
    if (all_sealed) cost_ = slowest(what);
    if (late) {  // try again at once, from farther ahead; a failed write waits for the next interval instead
        lead_ns_ = std::min(2 * lead_ns_, lead_max_ns);
        due_ns_ = what.now_ns;
    }
}

bool schedule::ready(const view& what) {
    if (interval_ns() == 0 || !all_training(what) || step_ns() == 0) return false;
    if (due_ns_ == 0) {
        cost_ = slowest(what);  // of a leader before this one
        due_ns_ = what.now_ns + interval_ns();
    }
    if (what.now_ns + lead_ns_ < due_ns_) return false;
    if (!any_draining(what)) return !open_;
    if (!waited_) stretched_++;
    waited_ = true;
    return false;
}

std::optional<uint64_t> schedule::propose(const view& what) {
    settle(what);
    if (!ready(what)) return std::nullopt;
    const uint64_t ahead_ns = std::max(lead_ns_, due_ns_ > what.now_ns ? due_ns_ - what.now_ns : 0);
    const uint64_t pace_ns = step_ns();
    const uint64_t since_ns = stalled_ns(what.now_ns);  // how far into the present step training is
    const uint64_t steps = std::max(steps_ahead_min, (ahead_ns + std::min(since_ns, pace_ns) + pace_ns - 1) / pace_ns);
    proposed_step_ = newest_step_ + steps;
    open_ = true;
    waited_ = false;
    due_ns_ = std::max(due_ns_ + interval_ns(), what.now_ns + lead_ns_);
    return proposed_step_;
}

// ---- completeness

std::vector<sealed_generation> newly_complete(const view& what, uint64_t complete_step) {
    std::vector<sealed_generation> found;
    for (const auto& mine : what.nodes[what.self].slot.generations) {
        if (mine.step <= complete_step || mine.what != outcome::sealed) continue;
        sealed_generation generation{mine.step, {}};
        for (const auto& node : what.nodes) {
            if (!node.seen) break;
            for (const auto& state : node.slot.generations) {
                if (state.step != mine.step || state.what != outcome::sealed) continue;
                generation.packs.push_back(
                    {node.slot.node_index, state.bytes_total, state.seal_checksum, node.slot.host});
                break;  // one node is one pack, whatever its slot says
            }
        }
        if (generation.packs.size() == what.nodes.size()) found.push_back(std::move(generation));
    }
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
    return found;
}

// ---- death

namespace {

// Clocks differ by a millisecond or so with NTP, and a busy agent sees an end some tens of them late: ranks that die of
// a lost peer at once give no verdict.
constexpr uint64_t seen_apart_ns = 50'000'000;

}  // namespace

std::vector<uint32_t> dead_nodes(const view& what, uint64_t silence_ns, const schedule& pace, uint64_t reached_ns) {
    std::vector<uint32_t> dead;
    // A step that simply takes long is not stopped training: half again as long as usual, and one more for the reading
    // of the slots.
    const uint64_t patience_ns = std::max(silence_ns, 5 * pace.step_ns() / 2);
    if (pace.stalled_ns(what.now_ns) < patience_ns) return dead;
    for (uint32_t index = 0; index < what.nodes.size(); index++) {
        const auto& node = what.nodes[index];
        if (index == what.self || !node.seen || node.slot.now == phase::ended) continue;
        const bool lost = is_cut_off(node) && reached_ns >= contact_proof_ns;
        if (is_silent(node, silence_ns) || lost) dead.push_back(index);
    }
    return dead;
}

std::optional<uint32_t> first_failed(const view& what) noexcept {
    uint64_t first_ns = UINT64_MAX;
    uint64_t second_ns = UINT64_MAX;
    uint32_t first = 0;
    for (uint32_t index = 0; index < what.nodes.size(); index++) {
        const auto& node = what.nodes[index];
        if (!node.seen || node.slot.rank_gone_wall_ns == 0) continue;
        if (node.slot.rank_gone_wall_ns < first_ns) {
            second_ns = std::exchange(first_ns, node.slot.rank_gone_wall_ns);
            first = index;
        } else {
            second_ns = std::min(second_ns, node.slot.rank_gone_wall_ns);
        }
    }
    if (first_ns == UINT64_MAX || second_ns - first_ns < seen_apart_ns) return std::nullopt;
    return first;
}

// ---- restart

restart::wish restart::next(const view& what) {
    if (asked_) return wish::nothing;
    if (choice_.kind == store::choice_kind::none) {
        asked_ = true;
        return wish::choose;
    }
    if (choice_.kind == store::choice_kind::refused || confirmed_ == choice_.attempt) return wish::nothing;

    size_t loaded = 0;
    for (const auto& node : what.nodes) {
        if (!node.seen || node.slot.verdict_attempt != choice_.attempt) continue;
        switch (node.slot.loaded) {
        case store::verdict::none: break;
        case store::verdict::loaded: loaded++; break;
        case store::verdict::damaged:
            damage_ = node.slot.host + ": " + node.slot.reason;
            asked_ = true;
            return wish::mark_and_choose;
        case store::verdict::mismatch:
        case store::verdict::failed:
            // The code travels in the place of the step (roster.h).
            offer(store::choice_kind::refused,
                  {static_cast<uint64_t>(node.slot.loaded == store::verdict::failed ? code::io : code::mismatch), 0},
                  node.slot.host + ": " + node.slot.reason);
            return wish::nothing;
        }
    }
    if (loaded == what.nodes.size()) confirmed_ = choice_.attempt;
    return wish::nothing;
}

void restart::offer(store::choice_kind kind, store::generation_id id, const std::string& reason) {
    asked_ = false;
    choice_.attempt++;
    choice_.kind = kind;
    choice_.id = id;
    choice_.reason = reason;
}

}  // namespace varde::agent
