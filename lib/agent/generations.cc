// One generation on this node, from the first rank's save to its pack; and what the leader makes of all nodes' packs.
#include "agent/node.h"

#include "arena/wire.h"
#include "base/clock.h"
#include "base/units.h"

#include "varde.h"

#include <algorithm>
#include <numeric>

namespace varde::agent {

using store::outcome;

namespace {

// Steps older than any that a slot still tells of.
constexpr size_t reported_failures_max = 1024;

}  // namespace

// ---- Saves

generation_work& node::work_of(uint64_t step) {
    const auto found = std::find_if(works_.begin(), works_.end(), [&](const auto& work) { return work->step == step; });
    if (found != works_.end()) return **found;
    works_.push_back(std::make_unique<generation_work>());
    auto& work = *works_.back();
    work.step = step;
    if (step == start_.armed_step) start_.armed_open = false;
    work.saves.resize(ranks_.size());
    work.ranges.resize(ranks_.size());
    work.sizes.resize(ranks_.size());
    work.begun_ns = mono_ns();
    if (state_of(step) == nullptr) set_outcome(step, outcome::pending, nullptr, 0);
    return work;
}

result<void> node::on_save(uint32_t index, const arena::save& what) {
    auto& rank = ranks_[index];
    if (what.step == rank.saved_step && rank.facts.again) return {};  // said again after a worker's restart
    if (!rank.range || what.layout_version != rank.layout_version)
        return fail(code::invalid, "a save came without its layout");
    if (what.step <= rank.saved_step) return fail(code::invalid, "saves must come with growing steps");
    if (what.first_chunk != rank.next_chunk ||
        what.chunk_count != pack::chunk_count(rank.range->size_bytes, chunk_bytes())) {
        return fail(code::invalid, "a save's chunks do not follow the last one's");
    }
    rank.saved_step = what.step;
    rank.next_chunk = what.first_chunk + what.chunk_count;
    put_record(record::save, index, arena::encode(what));
    auto& work = work_of(what.step);
    work.saves[index] = what;
    work.ranges[index] = *rank.range;
    work.sizes[index] = rank.range->size_bytes;
    if (start_.fenced) work.job.cancelled = true;
    if (state_of(what.step)->what != outcome::pending) {  // given up before this rank's word came
        let_go(work, index);
        return {};
    }
    begin_drain(work);
    look_for_late();
    return {};
}

result<void> node::on_give_up(uint32_t index, const arena::give_up& what) {
    log_.warning("rank " + std::to_string(ranks_[index].facts.rank) + " gave up staging step " +
                 std::to_string(what.step));
    for (auto& work : works_) {
        if (work->step == what.step) work->job.cancelled = true;
    }
    if (ranks_[index].wire != nullptr) ranks_[index].wire->send_message(what);
    return {};
}

void node::begin_drain(generation_work& work) {
    const bool whole =
        std::all_of(work.saves.begin(), work.saves.end(), [](const auto& save) { return save.has_value(); });
    // With discards under way it is one that was dropped, or that the worker before this one had sealed.
    if (!whole || work.draining || work.discards > 0 || run_ == nullptr) return;
    work.draining = true;
    if (auto* state = state_of(work.step)) {
        state->bytes_total = std::accumulate(work.sizes.begin(), work.sizes.end(), uint64_t{0});
    }
    work.job.id = {work.step, mine_.incarnation};
    for (uint32_t rank = 0; rank < ranks_.size(); rank++) {
        const auto slab = slab_of(rank);
        work.job.sources.push_back({control_of(rank), memory_.arena.data() + slab.offset,
                                    slab.size_bytes / chunk_bytes(), work.saves[rank]->first_chunk,
                                    work.saves[rank]->chunk_count});
        // A rank that died between its save and now.
        if (ranks_[rank].gone && control_of(rank)->staged.load() < work.job.sources.back().end_chunk())
            work.job.cancelled = true;
    }
    mover_.post([this, &work] {
        auto outcome = drain_on_mover(work);
        main_.post([this, step = work.step, outcome] { drained(step, outcome); });
    });
}

// On the mover: the header of many thousand tensors takes a moment too.
drain_outcome node::drain_on_mover(generation_work& work) {
    pack::identity who{facts_.name,  work.step,    work.job.id.incarnation, facts_.node_index, facts_.node_count,
                       facts_.world, VARDE_VERSION};
    // Packs hold ranks in ascending order; local order and global order may differ.
    std::vector<size_t> order(work.ranges.size());
    for (size_t i = 0; i < order.size(); i++) order[i] = i;
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return work.ranges[a].rank < work.ranges[b].rank; });
    std::vector<pack::range> ranges;
    std::vector<drain_source> sources;
    for (const size_t i : order) {
        ranges.push_back(std::move(work.ranges[i]));
        sources.push_back(work.job.sources[i]);
    }
    work.job.sources = std::move(sources);
    auto image = pack::compose(std::move(who), std::move(ranges), chunk_bytes());
    if (!image) {
        for (const auto& source : work.job.sources) discard_chunks(source, work.job.cancelled);
        return {false, image.error(), 0, 0};
    }
    work.job.image = std::move(*image);
    drain writer(*run_, engine_on_mover(), node_control(), log_, direct_refused_, io::pace(with_.write_bytes_per_s));
    return writer.carry_out(work.job);
}

void node::drained(uint64_t step, const drain_outcome& how) {
    const auto found = std::find_if(works_.begin(), works_.end(), [&](const auto& work) { return work->step == step; });
    if (found == works_.end()) return;
    update_progress();  // a last time while it is pending
    const uint64_t bytes = (*found)->job.image.file_bytes;
    set_outcome(step, how.sealed ? outcome::sealed : outcome::failed, &how, bytes);
    if (how.sealed) {
        mine_.drain_ns = how.duration_ns;
        note_held((*found)->job);
        log_.info("step " + std::to_string(step) + " sealed: " + format_bytes(bytes) + " in " +
                  std::to_string(how.duration_ns / ns_per_ms) + " ms");
    } else {
        log_.error("step " + std::to_string(step) + " is given up on this node: " + how.why.context +
                   "; training continues, older generations are intact");
        note_failed(step);
    }
    works_.erase(found);
    arena::wire_writer value;  // so that a worker that takes over does not write it again
    value.number(step);
    value.number(static_cast<uint32_t>(how.sealed ? outcome::sealed : outcome::failed));
    value.number(bytes);
    value.number(how.seal_checksum);
    put_record(record::outcome, ledger::no_rank, value.bytes());
    beat();
}

// For ranks that die and come back on this node (load.h).
void node::note_held(const drain_job& job) {
    held_ = {job.id, job.image.chunk_bytes, {}, job.image.who.node_index};
    for (size_t i = 0; i < job.sources.size(); i++) {
        const auto& source = job.sources[i];
        if (source.held())
            held_.ranges.push_back({job.image.ranges[i].what.rank, source.slab, source.place_count, source.first_chunk,
                                    source.chunk_count});
    }
}

// A generation that never became whole on this node.
void node::drop_work(uint64_t step, outcome how, const std::string& why) {
    if (step == start_.armed_step) start_.armed_open = false;
    set_outcome(step, how, nullptr, 0);
    log_.warning("step " + std::to_string(step) + " is skipped on this node: " + why);
    note_failed(step);
    const auto found = std::find_if(works_.begin(), works_.end(), [&](const auto& work) { return work->step == step; });
    if (found != works_.end()) {
        for (uint32_t rank = 0; rank < ranks_.size(); rank++) {
            if ((*found)->saves[rank]) let_go(**found, rank);
        }
        if ((*found)->discards == 0) works_.erase(found);
    }
    beat();
}

// The chunks of a rank that no pack will have are let go on the mover, in their order.  The work stays known until
// then, so that the death of the rank reaches it, and no other start begins on the same memory.
void node::let_go(generation_work& work, uint32_t rank) {
    const auto& save = *work.saves[rank];
    if (ranks_[rank].gone) work.job.cancelled = true;
    work.discards++;
    mover_.post([this, &work, source = drain_source{control_of(rank), nullptr, 0, save.first_chunk, save.chunk_count}] {
        discard_chunks(source, work.job.cancelled);
        main_.post([this, &work] {
            if (--work.discards == 0) forget(work);
        });
    });
}

void node::forget(generation_work& work) {
    std::erase_if(works_, [&](const auto& one) { return one.get() == &work; });
    beat();
}

// ---- Due

void node::arm(uint64_t step) {
    start_.armed_step = step;
    start_.armed_open = step > mine_.complete_step && state_of(step) == nullptr;
    for (uint32_t rank = 0; rank < ranks_.size(); rank++)
        control_of(rank)->due_step.store(step, std::memory_order_relaxed);
    look_for_late();
}

// The rank is beyond the step and did not save it.
bool node::passed_by(uint32_t index, uint64_t step) const {
    const auto& rank = ranks_[index];
    if (rank.gone || rank.left) return true;
    if (rank.saved_step > step) return true;  // messages come in order
    const auto* control = control_of(index);
    const uint64_t progress = control->progress_step.load(std::memory_order_acquire);
    return progress > step && control->saving_step.load(std::memory_order_acquire) < step;
}

void node::look_for_late() {
    std::vector<uint64_t> open;
    if (start_.armed_open) open.push_back(start_.armed_step);
    for (const auto& work : works_) {
        if (!work->draining && work->discards == 0 && run_ != nullptr) open.push_back(work->step);
    }
    for (const uint64_t step : open) {
        const auto work =
            std::find_if(works_.begin(), works_.end(), [&](const auto& one) { return one->step == step; });
        for (uint32_t rank = 0; rank < ranks_.size(); rank++) {
            if (work != works_.end() && (*work)->saves[rank]) continue;
            if (!passed_by(rank, step)) continue;
            if (ranks_[rank].left && work == works_.end()) {  // training ended before a step that nobody saved
                start_.armed_open = false;
                break;
            }
            const bool ended = ranks_[rank].gone || ranks_[rank].left;
            drop_work(step, ended ? outcome::failed : outcome::late,
                      "rank " + std::to_string(ranks_[rank].facts.rank) +
                          (ended ? " has ended without saving it" : " was past it when it became due"));
            break;
        }
    }
}

void node::follow_generation(const store::slot& leader) {
    if (leader.proposed_step > start_.armed_step) arm(leader.proposed_step);
    if (leader.complete_step > mine_.complete_step) note_complete(leader.complete_step);
    note_failed(leader.failed_step);
}

// ---- What the slot says of generations

store::generation_state* node::state_of(uint64_t step) {
    const auto found = std::find_if(mine_.generations.begin(), mine_.generations.end(),
                                    [&](const auto& state) { return state.step == step; });
    return found == mine_.generations.end() ? nullptr : &*found;
}

void node::set_outcome(uint64_t step, outcome how, const drain_outcome* details, uint64_t bytes) {
    auto* state = state_of(step);
    if (state == nullptr) {
        // The newest in front; the oldest falls out.
        std::move_backward(mine_.generations.begin(), mine_.generations.end() - 1, mine_.generations.end());
        state = mine_.generations.data();
        *state = {};
        state->step = step;
    }
    state->what = how;
    state->bytes_total = bytes;
    if (details != nullptr) {
        state->bytes_done = details->sealed ? bytes : state->bytes_done;
        state->os_errno = static_cast<uint32_t>(details->sealed ? 0 : details->why.os_errno);
        state->seal_checksum = details->seal_checksum;
    }
}

// What the ranks have copied so far, each in its own counter.
uint64_t node::staged_bytes(const generation_work& work) const {
    uint64_t bytes = 0;
    for (uint32_t rank = 0; rank < ranks_.size(); rank++) {
        const auto& save = work.saves[rank];
        const uint64_t staged = control_of(rank)->staged.load(std::memory_order_relaxed);
        if (!save || staged <= save->first_chunk) continue;
        bytes += std::min((staged - save->first_chunk) * chunk_bytes(), work.sizes[rank]);
    }
    return bytes;
}

void node::update_progress() {
    mine_.drain_busy = works_.empty() ? 0 : 1;
    mine_.stall_ns = 0;
    for (uint32_t rank = 0; rank < ranks_.size(); rank++)
        mine_.stall_ns = std::max(mine_.stall_ns, control_of(rank)->stall_ns.load(std::memory_order_relaxed));
    for (const auto& work : works_) {
        auto* state = state_of(work->step);
        if (state == nullptr || state->what != outcome::pending) continue;
        state->bytes_done = work->job.bytes_done.load(std::memory_order_relaxed);
        state->bytes_staged = staged_bytes(*work);
        if (work->staged || state->bytes_total == 0 || state->bytes_staged < state->bytes_total) continue;
        work->staged = true;
        mine_.stage_ns = mono_ns() - work->begun_ns;
    }
}

void node::tell_news() { arena::ring(node_control()->news); }

// Here, or on any node: the generation will not become complete, and whoever waits for it should know.
void node::note_failed(uint64_t step) {
    if (step <= node_control()->failed_step.load()) return;
    node_control()->failed_step = step;
    tell_news();
}

void node::note_complete(uint64_t step) {
    mine_.complete_step = step;
    node_control()->complete_step = step;
    tell_news();
    put_node_record();
}

// ---- Leading

void node::lead_generations(const view& now) {
    const bool ending =
        std::any_of(ranks_.begin(), ranks_.end(), [](const local_rank& rank) { return rank.left || rank.gone; });
    if (const auto step = ending ? std::nullopt : schedule_->propose(now)) {
        mine_.proposed_step = *step;
        history("proposed", {}, {{"step", *step}, {"at_step", mine_.step_max}, {"step_ns", schedule_->step_ns()}});
        log_.info("generation at step " + std::to_string(*step) + " proposed, " +
                  std::to_string(schedule_->step_ns() / ns_per_ms) + " ms per step");
        tell_interval();
        beat();
    }
    if (schedule_->stretched() != start_.stretched_reported) {
        start_.stretched_reported = schedule_->stretched();
        log_.warning(
            "the last generation is still being written when the next is due: it waits, the interval gets longer");
        history("stretched", {}, {{"count", start_.stretched_reported}});
    }
    report_failures(now);
    tell_staged(now);
    for (const auto& generation : newly_complete(now, mine_.complete_step)) {
        if (generation.step > start_.committing_step) commit(generation);
    }
}

// Where it is computed, and has changed.
void node::tell_interval() {
    const uint64_t interval_s = schedule_->interval_ns() / ns_per_s;
    if (facts_.interval_s != interval_auto_s || interval_s == start_.told_interval_s) return;
    start_.told_interval_s = interval_s;
    const auto& cost = schedule_->cost();
    log_.info("the interval is " + format_duration(interval_s) + ": a checkpoint costs " +
              std::to_string(cost.stall_ns / ns_per_ms) + " ms of training and " +
              std::to_string(cost.drain_ns / ns_per_ms) + " ms of writing");
    history("interval", {}, {{"interval_s", interval_s}, {"stall_ns", cost.stall_ns}, {"drain_ns", cost.drain_ns}});
}

// Failures of any node, once per step, for history.jsonl.
void node::report_failures(const view& now) {
    for (const auto& other : now.nodes) {
        if (!other.seen) continue;
        for (const auto& state : other.slot.generations) {
            const bool bad = state.what == outcome::failed || state.what == outcome::late;
            if (!bad || !start_.reported_failures.insert(state.step).second) continue;
            mine_.failed_step = std::max(mine_.failed_step, state.step);
            if (start_.requeue.asked()) continue;  // the end of the incarnation is no news of its generations
            history(state.what == outcome::failed ? "failed" : "late", {{"host", other.slot.host}},
                    {{"step", state.step}, {"errno", state.os_errno}});
        }
    }
    while (start_.reported_failures.size() > reported_failures_max)
        start_.reported_failures.erase(start_.reported_failures.begin());
}

}  // namespace varde::agent
