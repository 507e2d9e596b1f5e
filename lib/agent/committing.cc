// Committing a generation that all nodes have sealed, and deleting what it makes superfluous.  What waits for storage
// runs on the keeper.
#include "agent/node.h"

#include "base/clock.h"

#include "varde.h"

#include <algorithm>

namespace varde::agent {

void node::commit(const sealed_generation& generation) {
    start_.committing_step = generation.step;
    tell_sealed(generation);
    store::manifest record{
        facts_.name, {generation.step, mine_.incarnation}, facts_.world, generation.packs, wall_ns(), VARDE_VERSION};
    keeper_.post([this, start = start_number_.load(), run = run_, record = std::move(record), keep = keep()] {
        const uint64_t begun_ns = mono_ns();
        auto seen = run->confirm(record);
        auto done = seen ? run->commit(record) : seen;
        main_.post([this, start, step = record.id.step, seen, done, spent_ns = mono_ns() - begun_ns] {
            if (start != start_number_) return;
            if (seen) committed(step, done, spent_ns);
            else unconfirmed(step, seen.error());
        });
        if (!done) return;
        auto removed = retire_on_keeper(*run, keep, record.id);
        main_.post([this, start, removed = std::move(removed)] {
            if (start == start_number_) tell_retired(removed);
        });
        if (!slurm_.present()) return;
        auto told = slurm_.comment("varde: step " + std::to_string(record.id.step) + " durable " +
                                   local_time(record.wall_ns, "%H:%M:%S"));
        if (!told) log_.warning("couldn't set the job's comment: " + told.error().context);
    });
}

std::vector<store::generation_id> node::retire_on_keeper(store::run_directory& run, uint32_t keep,
                                                         store::generation_id newest) {
    std::vector<std::string> left;
    std::vector<store::generation_id> removed;
    auto retired = run.retire(keep, newest, &left, &removed);
    if (!retired)
        log_.error("couldn't delete old generations: " + retired.error().context + "; trying again after the next one");
    if (left == left_) return removed;  // it was said
    for (const auto& one : left) log_.warning("old packs on mounts: " + one);
    left_ = std::move(left);
    return removed;
}

// All nodes have sealed their packs, but where the leader looks on the mounts, they are not all there.
void node::unconfirmed(uint64_t step, const failure& why) {
    log_.error("step " + std::to_string(step) + " is not committed: " + why.context +
               "; training continues, older generations are intact");
    history("failed", {{"host", mine_.host}}, {{"step", step}, {"errno", static_cast<uint64_t>(why.os_errno)}});
    mine_.failed_step = std::max(mine_.failed_step, step);
    note_failed(step);
    beat();
}

void node::committed(uint64_t step, const result<void>& done, uint64_t commit_ns) {
    if (!done) {
        // All packs are sealed, so the generation is complete with or without its manifest.
        log_.error("couldn't write the manifest of step " + std::to_string(step) + ": " + done.error().context);
    }
    log_.info("step " + std::to_string(step) + " is complete on " + std::to_string(facts_.node_count) + " nodes");
    tell_complete(step, commit_ns);
    if (step > mine_.complete_step) note_complete(step);
    beat();
}

}  // namespace varde::agent
