// The record of what happened to the run: events for history.jsonl (lib/store/HISTORY.md), written by the leader.
#include "agent/node.h"

#include "base/clock.h"

#include <algorithm>

namespace varde::agent {

namespace {

// Training that nothing else is told of says where it is, so that the record of a long interval has more than its ends.
constexpr uint64_t progress_ns = 300 * ns_per_s;

}  // namespace

void node::history(const char* event, const event_texts& texts, const event_numbers& numbers) {
    // A fenced incarnation writes no more, here neither: the newer one tells what happens now.
    if (run_ == nullptr || start_.fenced) return;
    start_.told_ns = mono_ns();
    const store::history_event what{event, wall_ns(), mine_.incarnation, with_.job_id, with_.restart_count, with_.host,
                                    texts, numbers};
    keeper_.post([this, run = run_, text = store::encode_event(what)] {
        if (auto done = run->append_history(text); !done)
            log_.warning("couldn't append to history.jsonl: " + done.error().context);
    });
}

void node::interrupted(const char* event, const char* why, event_texts texts) {
    last_step newest;
    for (const auto& other : seen_) {
        if (other.seen) newest.see(other.slot);
    }
    texts.insert(texts.begin(), {"cause", why});
    history(event, texts,
            {{"step", std::max(mine_.step_max, newest.step)},
             {"complete_step", mine_.complete_step},
             {"last_step_wall_ns", newest.wall_ns}});
}

// By node 0, which has just taken the incarnation.
void node::tell_start(const last_step& before) {
    history("start", {{"launch", facts_.launch}},
            {{"nodes", facts_.node_count},
             {"ranks", facts_.world},
             {"interval_s", facts_.interval_s == interval_auto_s ? 0 : facts_.interval_s},
             {"agent_wall_ns", begun_wall_ns_},
             {"hello_wall_ns", start_.hello_wall_ns},
             {"last_step", before.step},
             {"last_step_wall_ns", before.wall_ns}});
}

void node::tell_progress() {
    if (mono_ns() - start_.told_ns < progress_ns || schedule_->stalled_ns(mono_ns()) >= progress_ns) return;
    history("progress", {}, {{"step", mine_.step_max}});
}

// The newest proposal that has not been told of: all nodes hold it in memory now, and training needs it no more.
void node::tell_staged(const view& now) {
    const uint64_t step = mine_.proposed_step;
    if (step <= start_.told_staged_step) return;
    uint64_t bytes = 0;
    uint64_t stage_ns = 0;
    for (const auto& other : now.nodes) {
        const auto& all = other.slot.generations;
        const auto state = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.step == step; });
        const bool staged = other.seen && state != all.end() && state->bytes_total > 0 &&
                            (state->what == store::outcome::sealed || state->bytes_staged >= state->bytes_total);
        if (!staged) return;
        bytes += state->bytes_staged;
        stage_ns = std::max(stage_ns, other.slot.stage_ns);
    }
    start_.told_staged_step = step;
    history("staged", {}, {{"step", step}, {"bytes", bytes}, {"stage_ns", stage_ns}});
}

void node::tell_sealed(const sealed_generation& generation) {
    uint64_t bytes = 0;
    for (const auto& pack : generation.packs) bytes += pack.size_bytes;
    const auto slowest = std::max_element(
        seen_.begin(), seen_.end(), [](const auto& a, const auto& b) { return a.slot.drain_ns < b.slot.drain_ns; });
    history("sealed", {{"slowest", slowest == seen_.end() ? mine_.host : slowest->slot.host}},
            {{"step", generation.step},
             {"bytes", bytes},
             {"drain_ns", slowest == seen_.end() ? mine_.drain_ns : slowest->slot.drain_ns}});
}

void node::tell_complete(uint64_t step, uint64_t commit_ns) {
    uint64_t pack_bytes = 0;
    if (const auto* state = state_of(step)) pack_bytes = state->bytes_total;
    uint64_t stall_ns = mine_.stall_ns;
    for (const auto& other : seen_) stall_ns = std::max(stall_ns, other.slot.stall_ns);
    history("complete", {{"generation", store::generation_name({step, mine_.incarnation})}},
            {{"step", step}, {"pack_bytes", pack_bytes}, {"stall_ns", stall_ns}, {"commit_ns", commit_ns}});
}

void node::tell_retired(const std::vector<store::generation_id>& removed) {
    for (const auto id : removed) history("retired", {{"generation", store::generation_name(id)}}, {{"step", id.step}});
}

void node::flush_log() {
    if (log_fd_ < 0) return;
    keeper_.post([this, fd = log_fd_] { log_.flush(fd); });
}

}  // namespace varde::agent
