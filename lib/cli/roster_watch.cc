// Looking at a roster without taking part in it.
#include "cli/roster_watch.h"

#include "base/clock.h"
#include "store/history.h"

#include <algorithm>

namespace varde::cli {

namespace {

constexpr uint32_t nobody = UINT32_MAX;  // we are none of the nodes
// A node whose slot has not changed for so many periods is not waited for.
constexpr uint64_t beats_of_life = 4;

}  // namespace

roster_watch::roster_watch(std::string directory, std::string name, std::string launch, uint64_t silence_ns,
                           uint64_t period_ns)
    : directory_(std::move(directory)), name_(std::move(name)), launch_(std::move(launch)), silence_ns_(silence_ns),
      period_ns_(period_ns), pace_(agent::leader_options{}) {}

// The ranks make the directory; until then there is nothing to see.
result<void> roster_watch::open() {
    if (run_) return {};
    auto run = store::run_directory::open(directory_, name_, false);
    if (!run) return run.error();
    auto roster = run->open_roster(false);
    if (!roster) return roster.error();
    run_ = std::move(*run);
    roster_ = std::move(*roster);
    return {};
}

// Slot 0 is an earlier start's until this one has taken its incarnation.
result<bool> roster_watch::find_start() {
    if (!nodes_.empty()) return true;
    const auto first = roster_->read(0);
    if (!first) {
        if (first.error().what == code::not_found || first.error().what == code::damaged) return false;
        return first.error();
    }
    const bool ours = first->launch == launch_ || first->launch.starts_with(launch_ + ' ');
    if (!ours || first->incarnation == 0) return false;
    launch_ = first->launch;
    last_.incarnation = first->incarnation;
    nodes_.resize(first->node_count);
    return true;
}

result<run_sight> roster_watch::look() {
    if (auto done = open(); !done)
        return done.error().what == code::not_found ? result<run_sight>(last_) : done.error();
    const auto found = find_start();
    if (!found) return found.error();
    if (!*found) return last_;
    const auto slots = roster_->read_all(static_cast<uint32_t>(nodes_.size()));
    for (size_t index = 0; index < slots.size(); index++) {
        const auto& read = slots[index];
        const bool none = !read && (read.error().what == code::not_found || read.error().what == code::damaged);
        if (!read && !none) return read.error();  // not looked at: that is nobody's silence
        agent::look_again(nodes_[index], read ? &*read : nullptr, {launch_, last_.incarnation}, mono_ns(), period_ns_);
    }
    const agent::view now{mono_ns(), nobody, nodes_};
    pace_.observe(now);
    last_.dead.clear();
    for (const uint32_t index : agent::dead_nodes(now, silence_ns_, pace_))
        last_.dead.push_back(nodes_[index].slot.host);
    last_.draining = false;
    for (const auto& node : nodes_) {
        if (node.seen) last_.last.see(node.slot);
        last_.complete_step = std::max(last_.complete_step, node.slot.complete_step);
        last_.draining = last_.draining || (node.slot.drain_busy != 0 && node.quiet_ns < beats_of_life * period_ns_);
    }
    return last_;
}

result<bool> roster_watch::has_progress() const {
    if (!run_ || last_.incarnation == 0) return false;
    const auto newest = run_->choose(nullptr);
    if (newest) return newest->id.incarnation == last_.incarnation;
    if (newest.error().what == code::not_found || newest.error().what == code::damaged) return false;
    return newest.error();
}

result<void> roster_watch::tell(store::history_event what) {
    if (!run_ || last_.incarnation == 0) return {};
    what.incarnation = last_.incarnation;
    return run_->append_history(store::encode_event(what));
}

}  // namespace varde::cli
