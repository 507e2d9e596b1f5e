// The tick that looks after everything that only time brings, and the end of a start and of the agent.
#include "agent/node.h"

#include "base/clock.h"

#include <algorithm>
#include <thread>

namespace varde::agent {

namespace {

constexpr uint64_t stop_wait_ns = 5 * ns_per_s;  // for the other nodes' packs, once ours is sealed
constexpr uint64_t alone_ns = 60 * ns_per_s;     // an embedded agent without any rank ends after this
constexpr uint64_t ended_wait_ns = ns_per_s;  // for what a rank that has ended had still sent

constexpr int settle_look_ms = 10;

}  // namespace

void node::on_tick() {
    serve_waiting_hellos();
    look_for_ended();
    if (stage_ == stage::training) look_for_late();
    if (!works_.empty()) update_progress();
    settle_batch_exit();
    if (log_.pending() && log_fd_ >= 0 && keeper_.idle()) flush_log();

    const bool over = start_is_over();
    const bool anyone = std::any_of(ranks_.begin(), ranks_.end(),
                                    [](const local_rank& rank) { return rank.wire != nullptr || rank.process; });
    if (anyone) alone_since_ns_ = mono_ns();
    if (over && stage_ == stage::training && mine_.now != store::phase::ended &&
        std::all_of(ranks_.begin(), ranks_.end(), [](const local_rank& rank) { return rank.left; })) {
        mine_.now = store::phase::ended;
        if (start_.leading) history("ended", {}, {{"step", mine_.step_max}, {"complete_step", mine_.complete_step}});
        beat();
    }
    const bool abandoned = !anyone && mono_ns() - alone_since_ns_ > alone_ns;
    const bool may_end = stopping_ || (with_.embedded && (abandoned || (stage_ != stage::idle && everyone_present())));
    if (!may_end || !over || !waiting_hellos_.empty() || batch_link_ != nullptr) return;
    if (start_.stop_until_ns == 0) start_.stop_until_ns = mono_ns() + stop_wait_ns;
    // The leader stays a moment for the other nodes' packs, so that the manifest gets written; completeness does not
    // depend on it. A dead node's pack will not come.
    const bool dead = std::any_of(seen_.begin(), seen_.end(),
                                  [this](const sighting& other) { return is_silent(other, with_.silence_ns); });
    const bool uncommitted = start_.leading && !dead && mine_.generations[0].what == store::outcome::sealed &&
                             mine_.generations[0].step > mine_.complete_step;
    if (uncommitted && !start_.fenced && mono_ns() < start_.stop_until_ns) return;
    if (!keeper_.idle() && mono_ns() < start_.stop_until_ns + stop_wait_ns) return;
    finished_ = true;
}

void node::look_for_ended() {
    for (uint32_t index = 0; index < ranks_.size(); index++) {
        auto& rank = ranks_[index];
        if (rank.wire == nullptr || rank.ended_ns == 0 || mono_ns() - rank.ended_ns < ended_wait_ns) continue;
        rank.wire->local_rank = -1;
        rank.wire->closing = true;
        rank.wire = nullptr;
        rank_is_gone(index);
    }
}

void node::begin_stop() {
    stopping_ = true;
    if (stage_ == stage::opening || stage_ == stage::choosing) refuse_all(code::unavailable, "the job is ending");
    if (load_ != nullptr) load_->cancel();
    if (stage_ == stage::training && start_.leading && mine_.now != store::phase::ended)
        history("stopped", {}, {{"step", mine_.step_max}, {"complete_step", mine_.complete_step}});
    for (uint32_t rank = 0; rank < ranks_.size(); rank++) {
        if (ranks_[rank].present && ranks_[rank].wire == nullptr && !ranks_[rank].left) rank_is_gone(rank);
    }
}

bool node::settle_threads(uint64_t timeout_ms) {
    if (!start_.fenced && pulse_ != nullptr) {
        mine_.now = store::phase::ended;
        pulse_->set_slot(mine_);
    }
    bool settled = true;
    if (pulse_ != nullptr) settled = pulse_->stop(timeout_ms);
    flush_log();  // on the keeper: its storage may hang
    const auto until = deadline::in_ms(timeout_ms);
    while (!keeper_.idle() && !until.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(settle_look_ms));
    return settled && keeper_.idle() && mover_.idle();
}

}  // namespace varde::agent
