// When an agent asks whether it reaches the controller, and what the answers come to.
#include "agent/contact.h"

#include "agent/leader.h"
#include "base/clock.h"

#include <criterion/criterion.h>

using namespace varde;
using namespace varde::agent;

namespace {

constexpr uint64_t s = ns_per_s;
constexpr uint64_t silence_ns = 30 * s;

// Three nodes whose training has stood still for a minute, all slots alive; this one is node 1.
struct standstill {
    standstill() {
        for (auto& node : nodes) {
            node.seen = true;
            node.slot.now = store::phase::training;
        }
        pace.observe({s, 1, nodes});
    }
    view now() const { return {61 * s, 1, nodes}; }
    std::vector<uint32_t> dead(uint64_t reached_ns) const { return dead_nodes(now(), silence_ns, pace, reached_ns); }

    std::vector<sighting> nodes{3};
    schedule pace{leader_options{}};
};

}  // namespace

Test(agent_contact, nobody_asks_while_training_goes_on) {
    contact c;
    for (uint64_t now = s; now < 1000 * s; now += s) cr_assert(!c.ask(now, false, true));
    cr_assert_eq(c.cut_off_ns(1000 * s), 0);
    cr_assert_eq(c.reached_ns(), 0);
}

Test(agent_contact, a_standstill_is_asked_about_seldom_and_in_doubt_often) {
    contact c;
    cr_assert(c.ask(100 * s, true, false));
    cr_assert(!c.ask(101 * s, true, true), "one question at a time");
    c.answered(true, 101 * s);
    cr_assert(!c.ask(130 * s, true, false));
    cr_assert(c.ask(130 * s, true, true), "another node says that it is cut off");
    c.answered(true, 131 * s);
    cr_assert(!c.ask(134 * s, true, true));
    cr_assert(!c.ask(190 * s, true, false));
    cr_assert(c.ask(191 * s, true, false));
}

Test(agent_contact, is_lost_from_the_first_question_without_an_answer_to_the_next_with_one) {
    contact c;
    cr_assert(c.ask(100 * s, true, false));
    cr_assert_eq(c.cut_off_ns(109 * s), 0, "not known yet");
    c.answered(false, 110 * s);
    cr_assert(c.cut_off_ns(110 * s) > 0);
    cr_assert(c.ask(114 * s, true, false), "soon again");
    c.answered(false, 124 * s);
    cr_assert(c.cut_off_ns(126 * s) >= 16 * s);
    cr_assert(c.ask(128 * s, true, false));
    c.answered(true, 129 * s);
    cr_assert_eq(c.cut_off_ns(200 * s), 0);
}

Test(agent_contact, is_proved_by_answers_one_after_the_other) {
    contact c;
    const auto answer = [&](uint64_t at_ns, bool reached) {
        cr_assert(c.ask(at_ns, true, true));
        c.answered(reached, at_ns);
    };
    answer(100 * s, true);
    cr_assert_eq(c.reached_ns(), 0, "one answer proves a moment");
    answer(160 * s, true);
    cr_assert_eq(c.reached_ns(), 0, "what was in that minute is not known");
    for (uint64_t at = 164; at <= 176; at += 4) answer(at * s, true);
    cr_assert_eq(c.reached_ns(), 16 * s);
    answer(180 * s, false);
    cr_assert_eq(c.reached_ns(), 0);
    answer(184 * s, true);
    cr_assert_eq(c.reached_ns(), 0, "the row begins anew");
}

Test(agent_contact, forgets_when_training_goes_on) {
    contact c;
    cr_assert(c.ask(100 * s, true, false));
    c.answered(false, 110 * s);
    cr_assert(!c.ask(111 * s, false, false));
    cr_assert_eq(c.cut_off_ns(112 * s), 0);
    cr_assert(c.ask(113 * s, true, false), "the next standstill is asked about at once");
}

// ---- what the leader makes of it

Test(agent_contact, a_node_that_is_cut_off_is_lost_where_the_leader_is_not) {
    standstill w;
    cr_assert(w.dead(contact_proof_ns).empty(), "it hangs, nobody is cut off");
    w.nodes[2].slot.cut_off_ns = contact_proof_ns - 1;
    cr_assert(w.dead(contact_proof_ns).empty(), "not long enough");
    w.nodes[2].slot.cut_off_ns = contact_proof_ns;
    cr_assert(w.dead(contact_proof_ns - 1).empty(), "the leader has not proved that the controller is there");
    cr_assert(w.dead(contact_proof_ns) == std::vector<uint32_t>{2});
}

Test(agent_contact, a_node_that_is_cut_off_does_not_lead) {
    standstill w;
    cr_assert_eq(leader_of(w.now(), silence_ns), 0);
    w.nodes[0].slot.cut_off_ns = contact_proof_ns;
    cr_assert_eq(leader_of(w.now(), silence_ns), 1);
    for (auto& node : w.nodes) node.slot.cut_off_ns = contact_proof_ns;
    cr_assert_eq(leader_of(w.now(), silence_ns), 1, "all are: this node leads itself, and reaches nobody");
    cr_assert(w.dead(0).empty());
}

Test(agent_contact, whose_rank_ended_first_is_known_where_the_others_came_clearly_later) {
    standstill w;
    cr_assert(!first_failed(w.now()), "nobody's");
    w.nodes[2].slot.rank_gone_wall_ns = 100 * s;
    cr_assert_eq(*first_failed(w.now()), 2, "nobody else's");
    w.nodes[0].slot.rank_gone_wall_ns = 100 * s + 1000;
    cr_assert(!first_failed(w.now()), "clocks are not that good");
    w.nodes[0].slot.rank_gone_wall_ns = 101 * s;
    cr_assert_eq(*first_failed(w.now()), 2);
    w.nodes[1].slot.rank_gone_wall_ns = 99 * s;
    cr_assert_eq(*first_failed(w.now()), 1);
}
