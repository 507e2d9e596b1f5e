// A standstill: the leader's clock, what each node sees of its ranks, and what is done about it.
#include "agent/node.h"

#include "agent/traces.h"
#include "base/clock.h"
#include "base/units.h"
#include "store/files.h"

#include <algorithm>
#include <cinttypes>
#include <fcntl.h>
#include <span>
#include <unistd.h>

namespace varde::agent {

namespace {

constexpr uint64_t look_ms = 1000;                  // processor time is measured over so long
constexpr uint64_t traces_ms = 20'000;              // for the stacks of all ranks of a node
constexpr uint64_t answer_wait_ns = 40 * ns_per_s;  // for all nodes' answers: longer than both, and two periods

std::string trace_name(uint64_t incarnation, uint64_t step, uint32_t node_index) {
    char name[96];
    ::snprintf(name, sizeof name, "log/hang-r%" PRIu64 "-step-%012" PRIu64 "-node-%05" PRIu32 ".txt", incarnation, step,
               node_index);
    return name;
}

// What has been collected of one node's ranks.
struct evidence {
    suspect found;
    result<void> saved;
};

evidence collect(std::vector<rank_look> ranks, const std::string& title, const std::string& path) {
    look_twice(ranks, look_ms);
    evidence seen{suspect_of(ranks, look_ms * ns_per_ms), {}};
    // Time may run out, so the one that matters comes first.
    std::stable_partition(ranks.begin(), ranks.end(),
                          [&](const rank_look& rank) { return rank.rank == seen.found.rank; });
    std::string page = title + seen.found.text + "\n\n";
    const auto until = deadline::in_ms(traces_ms);
    for (const auto& rank : ranks) page += describe(rank, host_tracers(), until);
    const unique_fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) seen.saved = os_error(errno, "couldn't create '" + path + "'");
    else seen.saved = store::files::write_all(file.get(), std::as_bytes(std::span(page)), path);
    return seen;
}

}  // namespace

uint64_t node::hang_timeout_ns() const { return start_.asked.hang_timeout_s.value_or(with_.hang_timeout_s) * ns_per_s; }

std::vector<rank_look> node::look_at_ranks() const {
    std::vector<rank_look> looks;
    for (uint32_t index = 0; index < ranks_.size(); index++) {
        const auto& rank = ranks_[index];
        const auto* control = control_of(index);
        rank_look look{rank.facts.rank, rank.pid, control->progress_step.load(), rank.gone, rank.left, {}, 0, false};
        if (!rank.gone && !rank.left) look.process = look_at_process(rank.pid);
        const uint64_t places = slab_of(index).size_bytes / chunk_bytes();
        const bool full = control->staged.load() - control->released.load() >= places;
        look.stores = std::any_of(works_.begin(), works_.end(), [&](const auto& work) {
            const auto& save = work->saves[index];
            const bool more = save && control->staged.load() < save->first_chunk + save->chunk_count;
            return (work->draining && work->staged) || (full && more);
        });
        looks.push_back(look);
    }
    return looks;
}

// Once per beat of a node that trains.
void node::watch_standstill(const view& now, const store::slot& leader) {
    if (hang_timeout_ns() == 0 || hang_clock_ == nullptr) return;
    hang_clock_->observe(now, with_.silence_ns);
    // Our own tracer must not pass for a debugger.
    if (!start_.hang.collecting) mine_.quiet = lull_of(look_at_ranks());
    if (start_.leading) lead_standstill(now);
    if (leader.hang_asked > start_.hang.answered) answer_hang(leader.hang_asked);
}

void node::answer_hang(uint64_t asked) {
    auto& hang = start_.hang;
    hang.answered = asked;
    hang.collecting = true;
    log_.error("training stands still at step " + std::to_string(mine_.step_min) + "; looking at the ranks");
    const std::string name = trace_name(mine_.incarnation, mine_.step_min, mine_.node_index);
    const std::string title = "node " + std::to_string(mine_.node_index) + " (" + with_.host + ") at " +
                              local_time(wall_ns(), "%Y-%m-%d %H:%M:%S") + ", incarnation " +
                              std::to_string(mine_.incarnation) + ": no rank of the run has made a step for " +
                              format_duration(hang_timeout_ns() / ns_per_s) + "\n";
    keeper_.post([this, start = start_number_.load(), ranks = look_at_ranks(), asked, name, title,
                  path = run_->path() + "/" + name] {
        const auto seen = collect(ranks, title, path);
        main_.post([this, start, asked, name, seen] {
            if (start != start_number_) return;
            if (!seen.saved) log_.warning("the evidence of the hang is not saved: " + seen.saved.error().context);
            log_.warning(seen.found.text + "; more in '" + name + "'");
            start_.hang.collecting = false;
            mine_.hang_answered = asked;
            mine_.suspicion = static_cast<uint32_t>(seen.found.how);
            mine_.suspect_rank = seen.found.rank;
            mine_.reason = seen.found.text;
            beat();
        });
    });
}

// ---- Leading

void node::lead_standstill(const view& now) {
    auto& hang = start_.hang;
    if (!hang_clock_->hung()) {
        if (hang.asked_ns != 0) log_.warning("training goes on: it was no hang");
        hang.asked_ns = 0;
        hang.told = false;
        return;
    }
    if (start_.requeue.done() || (start_.requeue.asked() && !hang.told)) return;
    if (hang.asked_ns == 0) {
        hang.asked_ns = now.now_ns;
        for (const auto& other : now.nodes) mine_.hang_asked = std::max(mine_.hang_asked, other.slot.hang_asked);
        mine_.hang_asked++;
        beat();
    }
    const bool answered = std::all_of(now.nodes.begin(), now.nodes.end(), [this](const sighting& other) {
        return other.slot.hang_answered >= mine_.hang_asked;
    });
    if (answered || now.now_ns - hang.asked_ns >= answer_wait_ns) condemn(now);
}

void node::condemn(const view& now) {
    auto& hang = start_.hang;
    const auto first = first_to_stop(now.nodes);
    const uint64_t newest = std::max(mine_.complete_step, start_.restored_step);
    const auto* slot = first ? &now.nodes[*first].slot : nullptr;
    const std::string who = slot == nullptr ? "no rank stands out" : slot->reason + " on " + slot->host;
    const std::string what =
        "training hangs: no step for " + format_duration(hang_timeout_ns() / ns_per_s) + ", " + who;
    const std::string refusal = again_refusal(newest, start_.restored_step, budget());
    if (!hang.told) {
        hang.told = true;
        log_.error(what);
        interrupted("hang", store::cause::hang,
                    {{"what", who},
                     {"host", slot == nullptr ? "" : slot->host},
                     {"rank", slot == nullptr ? "" : std::to_string(slot->suspect_rank)},
                     {"trace", slot == nullptr ? "" : trace_name(mine_.incarnation, slot->step_min, *first)},
                     {"not_requeued", refusal}});
        if (!refusal.empty()) {
            keeper_.post([this, line = "varde: " + what + "; not requeued: " + refusal] {
                discard(slurm_.tell(line), "the log and the history have it");
            });
        }
    }
    if (refusal.empty())
        request_requeue(what, "varde: hang: " + who + "; requeued, step " + std::to_string(newest) + " durable");
}

}  // namespace varde::agent
