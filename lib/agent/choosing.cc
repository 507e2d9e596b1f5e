// Leading a start: which generation all nodes restore, and what their verdicts mean.
#include "agent/node.h"

namespace varde::agent {

namespace {

// The newest complete generation, or what --ckpt-restart says.  On the keeper, because it reads directories.
result<store::generation> find_generation(store::run_directory& run, const options& asked,
                                          const store::generation_id* before) {
    if (asked.restart == restart_policy::never) return fail(code::not_found, "");
    if (asked.restart == restart_policy::automatic) return run.choose(before);
    // Whoever names a step wants that one: another in its place would be a surprise.
    auto found =
        before == nullptr ? run.choose_step(asked.restart_step) : result<store::generation>(fail(code::damaged, ""));
    if (found) return found;
    if (found.error().what == code::io) return found;
    return fail(code::invalid, "--ckpt-restart: step " + std::to_string(asked.restart_step) +
                                   " cannot be restored from '" + run.path() + "'; 'varde ls' shows what is there");
}

}  // namespace

void node::lead_start(const view& now) {
    if (stage_ != stage::choosing) return;
    if (restart_ == nullptr) {
        restart_ = std::make_unique<restart>();
        for (const auto& other : now.nodes) {
            if (other.seen) restart_->continue_after(other.slot.choice_attempt);
        }
    }
    const uint64_t confirmed = restart_->confirmed_attempt();
    const auto attempt = restart_->current().attempt;
    switch (restart_->next(now)) {
    case restart::wish::nothing: break;
    case restart::wish::choose: choose(false); break;
    case restart::wish::mark_and_choose:
        history("damaged",
                {{"generation", store::generation_name(restart_->current().id)}, {"reason", restart_->damage()}},
                {{"step", restart_->current().id.step}});
        choose(true);
        break;
    }
    const auto& choice = restart_->current();
    mine_.choice_attempt = choice.attempt;
    mine_.choice = choice.kind;
    mine_.choice_step = choice.id.step;
    mine_.choice_incarnation = choice.id.incarnation;
    if (choice.kind == store::choice_kind::refused) {
        if (attempt != choice.attempt) history("refused", {{"reason", choice.reason}}, {});
        mine_.reason = choice.reason;
    }
    mine_.confirmed_attempt = restart_->confirmed_attempt();
    if (confirmed != mine_.confirmed_attempt || attempt != choice.attempt) beat();
}

void node::choose(bool after_damage) {
    const auto before = restart_->current().id;
    keeper_.post([this, start = start_number_.load(), run = run_, after_damage, before, damage = restart_->damage(),
                  asked = start_.asked] {
        if (after_damage) {
            if (auto done = run->mark_damaged(before, damage); !done) log_.error(done.error().context);
        }
        auto found = find_generation(*run, asked, after_damage ? &before : nullptr);
        // Something was there; that nothing older is left must not look like a fresh start.
        if (!found && after_damage && found.error().what == code::not_found)
            found = fail(code::damaged, damage + "; there is no older complete generation");
        main_.post([this, start, found] {
            if (start == start_number_) chosen(found);
        });
    });
}

void node::chosen(const result<store::generation>& found) {
    if (restart_ == nullptr || stage_ != stage::choosing) return;
    if (found) {
        restart_->offer(store::choice_kind::generation, found->id, "");
        history("choice", {{"generation", store::generation_name(found->id)}, {"after_damage", restart_->damage()}},
                {{"step", found->id.step}});
    } else if (found.error().what == code::not_found) {
        restart_->offer(store::choice_kind::fresh, {}, "");
        history("choice", {{"generation", "none"}}, {{"step", 0}});
    } else {
        // The code travels in the place of the step (roster.h).
        restart_->offer(store::choice_kind::refused, {static_cast<uint64_t>(found.error().what), 0},
                        found.error().context);
    }
    on_seen(std::move(seen_));  // say it now, not at the next beat
    beat();
}

}  // namespace varde::agent
