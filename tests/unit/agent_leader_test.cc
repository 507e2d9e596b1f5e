// The decisions of the roster: examples of each rule.  tests/simulate looks for broken promises where they meet.
//
// Time is a number here; a "node" is what its slot says.  No I/O.
#include "agent/leader.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <cstdlib>

using namespace varde;
using namespace varde::agent;
using store::choice_kind;
using store::outcome;
using store::phase;
using store::verdict;

namespace {

constexpr uint64_t silence_ns = 30 * ns_per_s;
constexpr uint64_t lead_ns = 3 * ns_per_s;

// A roster of nodes that all train, and a clock.
struct world {
    explicit world(size_t count, uint32_t index = 0) : nodes(count), self(index) {
        for (size_t i = 0; i < count; i++) {
            nodes[i].seen = true;
            nodes[i].slot.node_index = static_cast<uint32_t>(i);
            nodes[i].slot.node_count = static_cast<uint32_t>(count);
            nodes[i].slot.host = "host" + std::to_string(i);
            nodes[i].slot.now = phase::training;
        }
    }
    view now() const { return {now_ns, self, nodes}; }
    void all_at(uint64_t step) {
        for (auto& node : nodes) node.slot.step_min = node.slot.step_max = step;
    }
    void set(size_t node, uint64_t step, outcome what, uint64_t seal = 0) {
        auto& states = nodes[node].slot.generations;
        for (auto& state : states) {
            if (state.step != step) continue;
            state.what = what;
            state.seal_checksum = seal;
            return;
        }
        std::move_backward(states.begin(), states.end() - 1, states.end());
        states[0] = {step, what, 0, 0, 100, seal};
    }
    void set_all(uint64_t step, outcome what) {
        for (size_t i = 0; i < nodes.size(); i++) set(i, step, what);
    }

    std::vector<sighting> nodes;
    uint64_t now_ns = 1000 * ns_per_s;
    uint32_t self;
};

// Training with a fixed step time: lets a schedule see it and collects its proposals.
struct pace {
    pace(world& of, schedule& to, uint64_t per_step_ns) : w(of), s(to), step_ns(per_step_ns), start_ns(of.now_ns) {}

    // One beat later; what was proposed then.
    std::optional<uint64_t> beat() {
        w.now_ns += ns_per_s;
        w.all_at((w.now_ns - start_ns) / step_ns);
        s.observe(w.now());
        const auto step = s.propose(w.now());
        if (step) {
            proposals.push_back(*step);
            at_ns.push_back(w.now_ns);
            cr_assert(*step >= newest() + 2, "step %lu proposed at step %lu", *step, newest());
        }
        return step;
    }
    void run(uint64_t for_ns) {
        for (const uint64_t end = w.now_ns + for_ns; w.now_ns < end;) beat();
    }
    // Runs on until something is proposed, at most so long; 0: nothing was.
    uint64_t until_proposal(uint64_t for_ns) {
        for (const uint64_t end = w.now_ns + for_ns; w.now_ns < end;) {
            if (const auto step = beat()) return *step;
        }
        return 0;
    }
    uint64_t newest() const { return w.nodes[0].slot.step_max; }
    uint64_t time_of(uint64_t step) const { return start_ns + step * step_ns; }

    world& w;
    schedule& s;
    uint64_t step_ns, start_ns;
    std::vector<uint64_t> proposals, at_ns;
};

leader_options every(uint64_t interval_ns) { return {interval_ns, lead_ns, 0}; }

}  // namespace

// ---- who leads

Test(agent_leader, is_the_lowest_node_that_is_not_silent) {
    world w(4, 3);
    cr_assert_eq(leader_of(w.now(), silence_ns), 0);
    w.nodes[0].quiet_ns = silence_ns - 1;
    cr_assert_eq(leader_of(w.now(), silence_ns), 0);
    w.nodes[0].quiet_ns = silence_ns;
    cr_assert_eq(leader_of(w.now(), silence_ns), 1);
    w.nodes[1].quiet_ns = w.nodes[2].quiet_ns = silence_ns;
    cr_assert_eq(leader_of(w.now(), silence_ns), 3, "all before it are silent: this node");
    w.nodes[0].quiet_ns = 0;
    cr_assert_eq(leader_of(w.now(), silence_ns), 0, "it is back");
}

Test(agent_leader, may_be_a_node_that_was_not_looked_at_yet) {
    world w(2, 1);
    w.nodes[0].seen = false;
    cr_assert_eq(leader_of(w.now(), silence_ns), 0);
}

Test(agent_leader, is_this_node_where_it_is_the_first_however_quiet_it_seems) {
    world w(2, 0);
    w.nodes[0].quiet_ns = 100 * silence_ns;
    cr_assert_eq(leader_of(w.now(), silence_ns), 0);
}

Test(agent_leader, of_a_start_that_was_cut_off_does_not_take_the_run_back) {
    store::slot mine;
    mine.job_id = 7;
    mine.job_restarts = 1;
    store::slot there = mine;
    cr_assert(!is_later_start(there, mine), "another step of the same start");
    there.job_restarts = 2;
    cr_assert(is_later_start(there, mine));
    cr_assert(!is_later_start(mine, there), "and the later one takes over");
    there.job_id = 8;
    cr_assert(!is_later_start(there, mine), "of another job it is looked at whether that lives");
    there.job_id = mine.job_id = 0;
    cr_assert(!is_later_start(there, mine), "no Slurm, no order");
}

Test(agent_leader, knows_no_outcome_of_step_zero) {
    const store::slot empty;
    cr_assert(outcome_of(empty, 0) == outcome::none, "the four empty states have step 0");
    cr_assert(outcome_of(empty, 7) == outcome::none);
}

// ---- when the next generation is due

Test(agent_schedule, keeps_the_interval_to_within_a_step_for_hours) {
    for (const uint64_t step_ns :
         {ns_per_ms, 7 * ns_per_ms, 90 * ns_per_ms, 400 * ns_per_ms, 1100 * ns_per_ms, 3 * ns_per_s, 9 * ns_per_s}) {
        world w(2);
        schedule s(every(60 * ns_per_s));
        pace p(w, s, step_ns);
        for (int i = 0; i < 3 * 3600; i++) {
            if (const auto step = p.beat()) w.set_all(*step, outcome::sealed);
        }
        cr_assert(p.proposals.size() >= 176 && p.proposals.size() <= 180, "%zu proposals in 3 h of %lu ms steps",
                  p.proposals.size(), step_ns / ns_per_ms);
        // Against the first one: an error that adds up would show.  A beat is the resolution at which training is seen.
        for (size_t i = 1; i < p.proposals.size(); i++) {
            const int64_t off = static_cast<int64_t>(p.time_of(p.proposals[i])) -
                                static_cast<int64_t>(p.time_of(p.proposals[0]) + i * 60 * ns_per_s);
            const int64_t most = static_cast<int64_t>(std::max<uint64_t>(2 * step_ns, ns_per_s));
            cr_assert(std::abs(off) <= most, "generation %zu is off by %ld ms at %lu ms per step", i, off / 1'000'000,
                      step_ns / ns_per_ms);
        }
    }
}

Test(agent_schedule, proposes_far_enough_ahead_for_every_node_to_read_it) {
    for (const uint64_t step_ns : {ns_per_ms, 50 * ns_per_ms, 700 * ns_per_ms, 5 * ns_per_s, 60 * ns_per_s}) {
        world w(2);
        schedule s(every(300 * ns_per_s));
        pace p(w, s, step_ns);
        for (int i = 0; i < 4000; i++) {
            const auto step = p.beat();
            if (!step) continue;
            cr_assert(*step >= p.newest() + 2);
            // Where training is, is seen once per beat.
            cr_assert(p.time_of(*step) + ns_per_s >= w.now_ns + lead_ns, "step %lu is %ld ms away at %lu ms per step",
                      *step, static_cast<int64_t>(p.time_of(*step) - w.now_ns) / 1'000'000, step_ns / ns_per_ms);
            w.set_all(*step, outcome::sealed);
        }
        cr_assert(p.proposals.size() >= 11, "%zu proposals at %lu ms per step", p.proposals.size(),
                  step_ns / ns_per_ms);
    }
}

Test(agent_schedule, proposes_nothing_where_nobody_asks_for_checkpoints) {
    world w(2);
    schedule s(every(0));
    pace p(w, s, 100 * ns_per_ms);
    p.run(3600 * ns_per_s);
    cr_assert(p.proposals.empty());
}

Test(agent_schedule, waits_until_every_node_trains) {
    world w(3);
    w.nodes[2].slot.now = phase::loading;
    schedule s(every(10 * ns_per_s));
    pace p(w, s, 100 * ns_per_ms);
    p.run(100 * ns_per_s);
    cr_assert(p.proposals.empty());
    w.nodes[2].slot.now = phase::training;
    w.nodes[1].seen = false;
    p.run(100 * ns_per_s);
    cr_assert(p.proposals.empty());
    w.nodes[1].seen = true;
    cr_assert(p.until_proposal(20 * ns_per_s) != 0);
}

Test(agent_schedule, knows_no_pace_before_training_moves) {
    world w(1);
    schedule s(every(10 * ns_per_s));
    for (int i = 0; i < 100; i++) {
        w.now_ns += ns_per_s;
        s.observe(w.now());
        cr_assert(!s.propose(w.now()));
    }
    cr_assert_eq(s.step_ns(), 0);
    cr_assert_eq(s.stalled_ns(w.now_ns), 99 * ns_per_s);
}

Test(agent_schedule, waits_for_a_drain_and_counts_that_once) {
    world w(2);
    schedule s(every(60 * ns_per_s));
    pace p(w, s, 500 * ns_per_ms);
    const uint64_t first = p.until_proposal(120 * ns_per_s);
    w.set_all(first, outcome::pending);
    w.nodes[1].slot.drain_busy = 1;
    p.run(300 * ns_per_s);
    cr_assert_eq(p.proposals.size(), 1, "while it is drained");
    cr_assert_eq(s.stretched(), 1, "counted once, not once per beat");
    w.set_all(first, outcome::sealed);
    p.run(100 * ns_per_s);  // sealed, but the next one's chunks are still there
    cr_assert_eq(p.proposals.size(), 1);
    cr_assert_eq(s.stretched(), 1, "it is the same interval");
    w.nodes[1].slot.drain_busy = 0;
    cr_assert(p.until_proposal(2 * ns_per_s) != 0, "at once when the way is free");
    cr_assert_eq(s.stretched(), 1);
}

Test(agent_schedule, doubles_its_lead_after_a_node_was_late_and_tries_again_at_once) {
    world w(3);
    schedule s(every(600 * ns_per_s));
    pace p(w, s, 100 * ns_per_ms);
    uint64_t step = p.until_proposal(700 * ns_per_s);
    uint64_t lead_before = p.time_of(step) - w.now_ns;
    for (int i = 0; i < 6; i++) {
        w.set(0, step, outcome::sealed);
        w.set(1, step, outcome::late);
        step = p.until_proposal(2 * ns_per_s);
        cr_assert(step != 0, "try %d", i);
        const uint64_t lead = p.time_of(step) - w.now_ns;
        cr_assert(lead > lead_before || lead >= 59 * ns_per_s, "lead %lu ms after %lu ms", lead / ns_per_ms,
                  lead_before / ns_per_ms);
        cr_assert(lead <= 62 * ns_per_s, "bounded");
        lead_before = lead;
    }
}

Test(agent_schedule, a_failed_generation_waits_for_the_next_interval) {
    world w(2);
    schedule s(every(60 * ns_per_s));
    pace p(w, s, 100 * ns_per_ms);
    const uint64_t first = p.until_proposal(100 * ns_per_s);
    w.set(0, first, outcome::sealed);
    w.set(1, first, outcome::failed);
    const uint64_t second = p.until_proposal(100 * ns_per_s);
    cr_assert(p.time_of(second) - p.time_of(first) >= 58 * ns_per_s);
    cr_assert(p.time_of(second) - p.time_of(first) <= 62 * ns_per_s);
}

Test(agent_schedule, has_one_open_proposal_at_a_time) {
    world w(2);
    schedule s(every(60 * ns_per_s));
    pace p(w, s, 100 * ns_per_ms);
    const uint64_t first = p.until_proposal(100 * ns_per_s);
    w.nodes[1].slot.drain_busy = 1;
    w.set(0, first, outcome::sealed);  // the other has not said a word
    p.run(1000 * ns_per_s);
    cr_assert_eq(p.proposals.size(), 1);
    cr_assert_eq(s.proposed_step(), first);
}

// A leader that was silent for a while comes back with a proposal that the others no longer arm: nobody will
// ever report it.
Test(agent_schedule, gives_a_lost_proposal_up_at_the_next_interval) {
    world w(2);
    schedule s(every(60 * ns_per_s));
    pace p(w, s, 100 * ns_per_ms);
    const uint64_t first = p.until_proposal(100 * ns_per_s);
    w.set(0, first, outcome::sealed);
    const uint64_t second = p.until_proposal(200 * ns_per_s);
    cr_assert(second != 0, "checkpoints would have ended for good");
    cr_assert(p.time_of(second) - p.time_of(first) >= 58 * ns_per_s);
}

Test(agent_schedule, a_new_leader_begins_with_a_whole_interval) {
    world w(2, 1);
    schedule s(every(60 * ns_per_s));
    const uint64_t start_ns = w.now_ns;
    for (int i = 0; i < 500; i++) {  // node 0 leads: node 1 only watches
        w.now_ns += ns_per_s;
        w.all_at((w.now_ns - start_ns) / (100 * ns_per_ms));
        s.observe(w.now());
    }
    cr_assert(s.step_ns() > 95 * ns_per_ms && s.step_ns() < 105 * ns_per_ms, "it knows the pace");
    pace p(w, s, 100 * ns_per_ms);
    p.start_ns = start_ns;
    const uint64_t taken_over_ns = w.now_ns;
    const uint64_t step = p.until_proposal(100 * ns_per_s);
    cr_assert(p.time_of(step) - taken_over_ns >= 59 * ns_per_s);
}

// ---- silence

Test(agent_silence, is_time_in_which_a_slot_was_looked_at_and_had_not_changed) {
    const start_identity start{"job 7", 3};
    store::slot slot;
    slot.launch = "job 7";
    slot.incarnation = 3;
    slot.sequence = 1;
    sighting node;
    look_again(node, &slot, start, 100 * ns_per_s, ns_per_s);
    cr_assert(node.seen && node.quiet_ns == 0);
    look_again(node, &slot, start, 101 * ns_per_s, ns_per_s);
    look_again(node, nullptr, start, 102 * ns_per_s, ns_per_s);
    cr_assert_eq(node.quiet_ns, 2 * ns_per_s);
    cr_assert(!node.after_gap);
    look_again(node, &slot, start, 300 * ns_per_s, ns_per_s);
    cr_assert(node.after_gap);
    cr_assert_eq(node.quiet_ns, 4 * ns_per_s, "who could not look for minutes knows nothing of them");
    slot.sequence = 2;
    look_again(node, &slot, start, 301 * ns_per_s, ns_per_s);
    cr_assert_eq(node.quiet_ns, 0);
}

Test(agent_silence, is_not_broken_by_another_start) {
    store::slot slot;
    slot.launch = "job 6";
    slot.incarnation = 3;
    sighting node;
    look_again(node, &slot, {"job 7", 3}, ns_per_s, ns_per_s);
    slot.launch = "job 7";
    slot.incarnation = 2;
    look_again(node, &slot, {"job 7", 3}, 2 * ns_per_s, ns_per_s);
    cr_assert(!node.seen && node.quiet_ns == ns_per_s);
    look_again(node, &slot, {"job 7", 0}, 3 * ns_per_s, ns_per_s);
    cr_assert(node.seen, "whose number is not known yet takes it over");
}

Test(agent_silence, only_the_leader_reads_all_slots) {
    world w(4, 2);
    cr_assert_eq(slots_to_read(w.now(), silence_ns), 1);
    w.nodes[0].quiet_ns = silence_ns;
    cr_assert_eq(slots_to_read(w.now(), silence_ns), 2);
    w.nodes[1].quiet_ns = silence_ns;
    cr_assert_eq(slots_to_read(w.now(), silence_ns), 4);
}

// ---- completeness

Test(agent_complete, only_when_every_node_has_sealed_the_same_step) {
    world w(3);
    w.set_all(100, outcome::sealed);
    w.set(2, 100, outcome::pending);
    cr_assert(newly_complete(w.now(), 0).empty());
    w.set(2, 200, outcome::sealed);  // another step
    cr_assert(newly_complete(w.now(), 0).empty());
    w.set(2, 100, outcome::failed);
    cr_assert(newly_complete(w.now(), 0).empty());
    w.set(2, 100, outcome::sealed, 77);
    const auto found = newly_complete(w.now(), 0);
    cr_assert_eq(found.size(), 1);
    cr_assert_eq(found[0].step, 100);
    cr_assert_eq(found[0].packs.size(), 3);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert(found[0].packs[i].node_index == i && found[0].packs[i].host == "host" + std::to_string(i));
        cr_assert_eq(found[0].packs[i].size_bytes, 100);
    }
    cr_assert_eq(found[0].packs[2].seal_checksum, 77);
}

Test(agent_complete, never_with_a_node_that_was_not_seen) {
    world w(3);
    w.set_all(100, outcome::sealed);
    w.nodes[1].seen = false;
    cr_assert(newly_complete(w.now(), 0).empty());
}

Test(agent_complete, several_steps_come_oldest_first_and_once) {
    world w(2);
    for (const uint64_t step : {100, 200, 300}) w.set_all(step, outcome::sealed);
    const auto found = newly_complete(w.now(), 100);
    cr_assert_eq(found.size(), 2);
    cr_assert(found[0].step == 200 && found[1].step == 300);
    cr_assert(newly_complete(w.now(), 300).empty());
}

Test(agent_complete, one_node_that_names_a_step_twice_does_not_stand_for_two) {
    world w(2);
    w.nodes[0].slot.generations[0] = {100, outcome::sealed, 0, 0, 1, 1};
    w.nodes[0].slot.generations[1] = {100, outcome::sealed, 0, 0, 1, 1};
    for (const auto& one : newly_complete(w.now(), 0)) cr_assert(false, "step %lu", one.step);
}

// ---- death

namespace {

// A schedule that has seen `step_ns` per step, the last step just now.
schedule paced(world& w, uint64_t step_ns) {
    schedule s(every(600 * ns_per_s));
    for (uint64_t step = 1; step <= 10; step++) {
        w.now_ns += step_ns;
        w.all_at(step);
        s.observe(w.now());
    }
    return s;
}

}  // namespace

Test(agent_death, needs_both_silence_and_stopped_training) {
    world w(3);
    schedule s = paced(w, 100 * ns_per_ms);
    w.nodes[1].quiet_ns = silence_ns;
    cr_assert(dead_nodes(w.now(), silence_ns, s).empty(), "training goes on: the node's storage is slow");
    w.now_ns += silence_ns;
    s.observe(w.now());
    const auto dead = dead_nodes(w.now(), silence_ns, s);
    cr_assert(dead.size() == 1 && dead[0] == 1);
    w.nodes[1].quiet_ns = silence_ns - 1;
    cr_assert(dead_nodes(w.now(), silence_ns, s).empty(), "stopped, but all slots are alive: it hangs");
}

Test(agent_death, is_not_called_while_slots_cannot_be_read) {
    world w(2);
    schedule s = paced(w, 100 * ns_per_ms);
    w.now_ns += 10 * silence_ns;  // no look at the roster has succeeded: quiet_ns has not grown
    s.observe(w.now());
    cr_assert(dead_nodes(w.now(), silence_ns, s).empty());
}

Test(agent_death, is_not_called_during_a_long_step) {
    world w(2);
    schedule s = paced(w, 60 * ns_per_s);
    w.nodes[1].quiet_ns = silence_ns;
    for (int i = 0; i < 100; i++) {  // 100 s into a step of 60 s
        w.now_ns += ns_per_s;
        s.observe(w.now());
        cr_assert(dead_nodes(w.now(), silence_ns, s).empty(), "%d s after the last step", i);
    }
    w.now_ns += 60 * ns_per_s;
    s.observe(w.now());
    cr_assert_eq(dead_nodes(w.now(), silence_ns, s).size(), 1, "but a step does not take for ever");
}

// Or it would be noticed after twice the silence: the next leader looks at all slots for the first time.
Test(agent_death, of_a_leader_is_not_put_off_by_what_the_next_one_learns_late) {
    world w(3, 1);
    schedule s = paced(w, 100 * ns_per_ms);
    w.now_ns += silence_ns;
    w.nodes[0].quiet_ns = silence_ns;
    w.nodes[2].after_gap = true;  // node 1 has only followed so far
    w.nodes[2].slot.step_max++;   // has begun the step at which the others wait
    s.observe(w.now());
    const auto dead = dead_nodes(w.now(), silence_ns, s);
    cr_assert(dead.size() == 1 && dead[0] == 0);
    w.now_ns += ns_per_s;
    w.nodes[2].after_gap = false;
    w.nodes[2].slot.step_max++;
    s.observe(w.now());
    cr_assert(dead_nodes(w.now(), silence_ns, s).empty(), "but a step from then on is one");
}

Test(agent_death, is_not_called_for_nodes_that_have_ended_or_were_never_seen_or_for_this_one) {
    world w(4, 0);
    schedule s = paced(w, 100 * ns_per_ms);
    w.now_ns += 2 * silence_ns;
    s.observe(w.now());
    for (auto& node : w.nodes) node.quiet_ns = 2 * silence_ns;
    w.nodes[1].slot.now = phase::ended;
    w.nodes[2].seen = false;
    const auto dead = dead_nodes(w.now(), silence_ns, s);
    cr_assert(dead.size() == 1 && dead[0] == 3);
}

// ---- restart

namespace {

void answer(world& w, size_t node, uint64_t attempt, verdict what, const std::string& reason = "") {
    w.nodes[node].slot.verdict_attempt = attempt;
    w.nodes[node].slot.loaded = what;
    w.nodes[node].slot.reason = reason;
}

}  // namespace

Test(agent_restart, is_confirmed_by_all_verdicts_of_this_attempt_and_not_before) {
    world w(3);
    restart r;
    cr_assert(r.next(w.now()) == restart::wish::choose);
    cr_assert(r.next(w.now()) == restart::wish::nothing, "asked once");
    r.offer(choice_kind::generation, {1200, 3}, "");
    cr_assert_eq(r.current().attempt, 1);
    cr_assert_eq(r.confirmed_attempt(), 0);
    answer(w, 0, 1, verdict::loaded);
    answer(w, 1, 1, verdict::loaded);
    answer(w, 2, 0, verdict::loaded);  // of no attempt
    cr_assert(r.next(w.now()) == restart::wish::nothing);
    cr_assert_eq(r.confirmed_attempt(), 0);
    answer(w, 2, 1, verdict::loaded);
    w.nodes[1].seen = false;
    cr_assert(r.next(w.now()) == restart::wish::nothing);
    cr_assert_eq(r.confirmed_attempt(), 0);
    w.nodes[1].seen = true;
    cr_assert(r.next(w.now()) == restart::wish::nothing);
    cr_assert_eq(r.confirmed_attempt(), 1);
}

Test(agent_restart, walks_back_when_one_node_finds_damage) {
    world w(2);
    restart r;
    cr_assert(r.next(w.now()) == restart::wish::choose);
    r.offer(choice_kind::generation, {1200, 3}, "");
    answer(w, 0, 1, verdict::loaded);
    answer(w, 1, 1, verdict::damaged, "'x' is missing");
    cr_assert(r.next(w.now()) == restart::wish::mark_and_choose);
    cr_assert(r.damage().find("host1") != std::string::npos && r.damage().find("'x' is missing") != std::string::npos);
    cr_assert(r.next(w.now()) == restart::wish::nothing, "asked once");
    r.offer(choice_kind::generation, {1100, 3}, "");
    cr_assert_eq(r.current().attempt, 2);
    cr_assert(r.next(w.now()) == restart::wish::nothing, "the verdicts of attempt 1 are old news");
    cr_assert_eq(r.confirmed_attempt(), 0);
    answer(w, 0, 2, verdict::loaded);
    answer(w, 1, 2, verdict::loaded);
    cr_assert(r.next(w.now()) == restart::wish::nothing);
    cr_assert_eq(r.confirmed_attempt(), 2);
}

Test(agent_restart, is_refused_for_good_by_what_does_not_fit) {
    for (const auto& [what, expected] :
         {std::pair{verdict::mismatch, code::mismatch}, std::pair{verdict::failed, code::io}}) {
        world w(2);
        restart r;
        cr_assert(r.next(w.now()) == restart::wish::choose);
        r.offer(choice_kind::generation, {1200, 3}, "");
        answer(w, 1, 1, what, "'w' has another shape");
        cr_assert(r.next(w.now()) == restart::wish::nothing);
        cr_assert(r.current().kind == choice_kind::refused);
        cr_assert(r.current().reason.find("host1: 'w' has another shape") != std::string::npos);
        // The code travels in the place of the step.
        cr_assert_eq(r.current().id.step, static_cast<uint64_t>(expected));
        cr_assert(r.next(w.now()) == restart::wish::nothing);
        cr_assert_eq(r.confirmed_attempt(), 0);
    }
}

Test(agent_restart, goes_on_counting_where_another_leader_stopped) {
    world w(2, 1);
    restart r;
    r.continue_after(4);
    r.continue_after(2);
    cr_assert(r.next(w.now()) == restart::wish::choose);
    r.offer(choice_kind::fresh, {}, "");
    cr_assert_eq(r.current().attempt, 5, "number 4 meant another choice");
    answer(w, 0, 4, verdict::loaded);
    answer(w, 1, 5, verdict::loaded);
    cr_assert(r.next(w.now()) == restart::wish::nothing);
    cr_assert_eq(r.confirmed_attempt(), 0);
}
