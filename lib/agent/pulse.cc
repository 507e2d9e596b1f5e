// The thread of the pulse.
#include "agent/pulse.h"

#include "base/clock.h"

#include <algorithm>
#include <chrono>
#include <pthread.h>

namespace varde::agent {

namespace {

// Three times as long as node 0 watches another job's slots before it takes the run over (start.cc).
constexpr uint64_t other_patience_ns = 12 * ns_per_s;

}  // namespace

pulse::pulse(store::roster roster, const pulse_options& options, store::slot mine, inbox& main, handlers call)
    : roster_(std::move(roster)), options_(options), main_(main), call_(std::move(call)), mine_(std::move(mine)),
      nodes_(mine_.node_count) {
    thread_ = std::thread([this] { work(); });
    ::pthread_setname_np(thread_.native_handle(), "varde-pulse");
}

void pulse::set_slot(const store::slot& mine) {
    const std::lock_guard guard(mutex_);
    // A set before the incarnation is known must not take it away again.
    const uint64_t incarnation = std::max(mine.incarnation, mine_.incarnation);
    mine_ = mine;
    mine_.incarnation = incarnation;
}

void pulse::beat_soon() {
    {
        const std::lock_guard guard(mutex_);
        soon_ = true;
    }
    changed_.notify_all();
}

bool pulse::stop(uint64_t timeout_ms) {
    std::unique_lock lock(mutex_);
    stop_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [this] { return stopped_; });
    if (!stopped_) return false;
    lock.unlock();
    if (thread_.joinable()) thread_.join();
    return true;
}

// false: the end.
bool pulse::wait_for_beat() {
    std::unique_lock lock(mutex_);
    const bool quick = mine_.now != store::phase::training && mine_.now != store::phase::ended;
    const auto period = std::chrono::milliseconds(quick ? options_.quick_period_ms : options_.period_ms);
    changed_.wait_for(lock, period, [this] { return soon_ || stop_; });
    soon_ = false;
    return !stop_;
}

void pulse::work() {
    bool more = true;
    while (more) {
        beat();
        if (!fenced_) more = wait_for_beat();
        else break;
    }
    if (!fenced_) beat();  // the last word: what the slot says now
    const std::lock_guard guard(mutex_);
    stopped_ = true;
    changed_.notify_all();
}

void pulse::beat() {
    store::slot mine;
    {
        const std::lock_guard guard(mutex_);
        mine = mine_;
    }
    auto done = look(mine);
    if (done) {
        failing_ = false;
        // Handlers go along by value: the pulse may be gone when the main loop comes to them.
        main_.post([tell = call_.seen, seen = nodes_]() mutable { tell(std::move(seen)); });
    } else if (!failing_) {
        failing_ = true;
        main_.post([tell = call_.failed, why = done.error()] { tell(why); });
    }
}

result<void> pulse::look(store::slot& mine) {
    if (mine.incarnation == 0) {
        if (auto done = look_at(0); !done) return done;
        adopt();
        return {};
    }
    auto fenced = check_fence(mine);
    if (!fenced) return fenced.error();
    if (*fenced) return {};

    mine.sequence = ++sequence_;
    mine.wall_ns = wall_ns();
    call_.steps(mine.step_min, mine.step_max);
    if (mine.step_max > step_max_) {
        step_max_ = mine.step_max;
        step_wall_ns_ = mine.wall_ns;
    }
    mine.step_wall_ns = step_wall_ns_;
    if (auto done = roster_.write(mine); !done) return done;
    nodes_[mine.node_index].seen = true;
    nodes_[mine.node_index].slot = mine;

    const uint32_t count = slots_to_read({mono_ns(), mine.node_index, nodes_}, options_.silence_ns);
    if (count == mine.node_count) {
        auto slots = roster_.read_all(count);
        for (uint32_t index = 0; index < slots.size(); index++) note(index, slots[index]);
        return {};
    }
    for (uint32_t index = 0; index < count; index++) {
        if (auto done = look_at(index); !done) return done;
    }
    return {};
}

result<void> pulse::look_at(uint32_t index) {
    auto slot = roster_.read(index);
    if (!slot && slot.error().what != code::not_found && slot.error().what != code::damaged) return slot.error();
    note(index, slot);
    return {};
}

void pulse::note(uint32_t index, const result<store::slot>& read) {
    if (!read && read.error().what != code::not_found && read.error().what != code::damaged)
        return;  // not looked at all
    uint64_t incarnation = 0;
    std::string launch;
    {
        const std::lock_guard guard(mutex_);
        incarnation = mine_.incarnation;
        launch = mine_.launch;
        if (index == mine_.node_index) return;
    }
    if (read && index == 0 && incarnation == 0 && read->launch != launch) watch_other(*read);
    look_again(nodes_[index], read ? &*read : nullptr, {launch, incarnation}, mono_ns(),
               options_.period_ms * ns_per_ms);
}

// Node 0 of this start finds out within seconds that another job has the run, and cannot tell us: slot 0 is that job's.
void pulse::watch_other(const store::slot& other) {
    uint64_t job_id = 0;
    {
        const std::lock_guard guard(mutex_);
        job_id = mine_.job_id;
    }
    const uint64_t now = mono_ns();
    if (job_id != 0 && other.job_id == job_id) return;  // an earlier start of this job, which node 0 takes over from
    if (other.launch != other_launch_) {
        other_launch_ = other.launch;
        other_sequence_ = other.sequence;
        other_since_ns_ = now;
        other_alive_ = false;
        return;
    }
    // Once it was alive node 0 was refused, also if that job has ended since.
    other_alive_ = other_alive_ || other.sequence != other_sequence_;
    if (!other_alive_ || now - other_since_ns_ < other_patience_ns) return;
    other_since_ns_ = now;
    main_.post([tell = call_.taken, by = "'" + other.launch + "' on node '" + other.host + "'"] { tell(by); });
}

// Takes the incarnation over from slot 0 once that belongs to the same start.
void pulse::adopt() {
    const auto& first = nodes_[0];
    if (!first.seen || first.slot.incarnation == 0) return;
    const std::lock_guard guard(mutex_);
    mine_.incarnation = first.slot.incarnation;
    soon_ = true;
}

// A claim with a greater number than ours ends all writing of this incarnation.
result<bool> pulse::check_fence(const store::slot& mine) {
    auto newest = roster_.newest_incarnation(mine.incarnation);
    if (!newest) return newest.error();
    if (*newest <= mine.incarnation) return false;
    fenced_ = true;
    std::string host = "another node";
    if (auto first = roster_.read(0); first && first->incarnation == *newest) host = first->host;
    main_.post([tell = call_.fenced, newer = *newest, host] { tell(newer, host); });
    return true;
}

}  // namespace varde::agent
