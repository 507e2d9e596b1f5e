// Whether and when a job is started again.
#include "agent/requeue.h"

#include "base/clock.h"

#include <criterion/criterion.h>

using namespace varde;
using namespace varde::agent;

namespace {

job_facts running(uint64_t restarts) {
    job_facts facts;
    facts.id = "7";
    facts.state = "RUNNING";
    facts.restarts = restarts;
    facts.batch = true;
    return facts;
}

}  // namespace

Test(agent_requeue, is_of_the_start_that_asks_and_of_no_other) {
    cr_assert(check_requeue(running(2), 2).has_value());
    for (const uint64_t other : {1, 3}) cr_assert(check_requeue(running(other), 2).error().what == code::fenced);
    auto later = running(3);
    later.state = "PENDING";
    cr_assert(check_requeue(later, 2).error().what == code::fenced, "whatever its state, it is done");
}

Test(agent_requeue, waits_for_a_job_that_is_ending) {
    auto ending = running(2);
    ending.state = "COMPLETING";
    cr_assert(check_requeue(ending, 2).error().what == code::busy);
    auto interactive = running(2);
    interactive.batch = false;
    cr_assert(check_requeue(interactive, 2).error().what == code::invalid);
}

Test(agent_requeue, is_one_call_at_a_time_until_it_has_succeeded) {
    requeue_wish wish;
    cr_assert(wish.ask());
    cr_assert(!wish.ask(), "asked already");
    cr_assert(wish.begin(10 * ns_per_s));
    cr_assert(!wish.begin(11 * ns_per_s), "one is under way");
    wish.end(fail(code::unavailable, "slurmctld is away"), 12 * ns_per_s);
    cr_assert(!wish.begin(13 * ns_per_s), "a moment for slurmctld");
    cr_assert(wish.begin(14 * ns_per_s));
    wish.end({}, 15 * ns_per_s);
    cr_assert(wish.done());
    cr_assert(!wish.begin(100 * ns_per_s), "never twice");
}

Test(agent_requeue, is_done_too_where_another_was_quicker) {
    requeue_wish wish;
    cr_assert(wish.begin(0));
    wish.end(fail(code::fenced, "restarted already"), 1);
    cr_assert(wish.done() && !wish.begin(100 * ns_per_s));
}

Test(agent_requeue, after_a_failed_batch_script_needs_progress_and_budget) {
    constexpr int exit_3 = 3 << 8;
    cr_assert(batch_refusal({exit_3, 200, 100}, {}, {2, 3}).empty());
    cr_assert(batch_refusal({exit_3, 100, 100}, {}, {2, 3}).find("no new generation") == 0);
    cr_assert(batch_refusal({exit_3, 0, 0}, {}, {0, 3}).find("no new generation") == 0);
    cr_assert(batch_refusal({exit_3, 200, 100}, {}, {3, 3}).find("the budget of 3 restarts") == 0);
    cr_assert(!budget_refusal({0, 0}).empty(), "a budget of none");
}

Test(agent_requeue, never_comes_after_an_exit_code_that_is_final) {
    const exit_codes codes = *parse_exit_codes("2,64-78");
    for (const int code : {2, 64, 78})
        cr_assert(batch_refusal({code << 8, 200, 100}, codes, {0, 3}).find("is final") != std::string::npos);
    for (const int code : {1, 3, 63, 79, 255}) cr_assert(batch_refusal({code << 8, 200, 100}, codes, {0, 3}).empty());
    cr_assert(batch_refusal({2, 200, 100}, codes, {0, 3}).empty(), "signal 2 is no exit code");
}
