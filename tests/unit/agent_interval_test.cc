// --ckpt-interval=auto: the formula against the optimum that it estimates, its bounds, and the schedule that obeys.
#include "agent/interval.h"
#include "agent/leader.h"

#include "base/clock.h"

#include <cmath>
#include <criterion/criterion.h>

using namespace varde;
using namespace varde::agent;

namespace {

constexpr uint64_t hour_ns = 3600 * ns_per_s;

// Daly's exact expectation, without the time to restart: wall time per second of work, for failures that come at random
// at a mean distance of `mtbf`, with a checkpoint of `cost` after each `interval`.
double wall_per_work(double interval, double cost, double mtbf) {
    return mtbf * std::expm1((interval + cost) / mtbf) / interval;
}

}  // namespace

Test(agent_interval, is_within_a_thousandth_of_the_best) {
    for (const double mtbf_s : {3600.0, 24 * 3600.0, 1000 * 3600.0}) {
        for (const double cost_s : {0.01, 1.0, 60.0, 600.0}) {
            const auto chosen = static_cast<double>(daly_interval_ns(static_cast<uint64_t>(cost_s * 1e9),
                                                                     static_cast<uint64_t>(mtbf_s * 1e9))) /
                                1e9;
            double best = INFINITY;
            for (double interval = cost_s / 10; interval < 3 * mtbf_s; interval *= 1.001)
                best = std::min(best, wall_per_work(interval, cost_s, mtbf_s));
            cr_expect_lt(wall_per_work(chosen, cost_s, mtbf_s), best * 1.001, "cost %g s, failures each %g s: %g s",
                         cost_s, mtbf_s, chosen);
        }
    }
}

Test(agent_interval, is_the_distance_of_failures_where_checkpoints_cost_more) {
    cr_expect_eq(daly_interval_ns(2 * hour_ns, hour_ns), hour_ns);
    cr_expect_eq(daly_interval_ns(50 * hour_ns, hour_ns), hour_ns);
    cr_expect_eq(daly_interval_ns(0, hour_ns), 0);
}

Test(agent_interval, is_bounded_by_the_drain_and_by_a_minute) {
    const uint64_t mtbf_ns = 50 * hour_ns;
    cr_expect_eq(automatic_interval_ns({}, mtbf_ns), 60 * ns_per_s, "nothing is known yet");
    cr_expect_eq(automatic_interval_ns({1000, 0}, mtbf_ns), 60 * ns_per_s);
    cr_expect_eq(automatic_interval_ns({1000, 400 * ns_per_s}, mtbf_ns), 400 * ns_per_s);
    cr_expect_eq(automatic_interval_ns({ns_per_s, 400 * ns_per_s}, mtbf_ns), daly_interval_ns(ns_per_s, mtbf_ns));
}

namespace {

// One node that trains at a step per second, and whose generations are sealed at the beat after their step.
struct trainee {
    sighting node{.seen = true, .slot = {}, .quiet_ns = 0};
    schedule pace;
    uint64_t now_ns = 1000 * ns_per_s;

    explicit trainee(uint64_t mtbf_ns) : pace({.interval_ns = 0, .lead_ns = 3 * ns_per_s, .mtbf_ns = mtbf_ns}) {
        node.slot.node_count = 1;
        node.slot.now = store::phase::training;
    }
    // Seconds until the step that is proposed next is trained.
    uint64_t until_generation() {
        for (uint64_t seconds = 1; seconds < 100'000; seconds++) {
            now_ns += ns_per_s;
            node.slot.step_min = ++node.slot.step_max;
            const view now{now_ns, 0, {&node, 1}};
            pace.observe(now);
            discard(pace.propose(now).has_value(), "looked at through proposed_step()");
            if (pace.proposed_step() != node.slot.step_max) continue;
            node.slot.generations[0] = {pace.proposed_step(), store::outcome::sealed, 0, 1, 1, 0};
            return seconds;
        }
        cr_assert(false, "nothing was proposed");
        return 0;
    }
};

}  // namespace

Test(agent_interval, the_schedule_follows_what_checkpoints_cost) {
    trainee one(50 * hour_ns);
    const auto near = [](uint64_t seconds, uint64_t wanted) { return seconds + 5 >= wanted && seconds <= wanted + 5; };
    uint64_t seconds = one.until_generation();
    cr_expect(near(seconds, 60), "the first comes after a minute: %lu s", seconds);
    one.node.slot.stall_ns = 2 * ns_per_s;
    one.node.slot.drain_ns = 20 * ns_per_s;
    one.until_generation();  // its proposal is made before the cost is known
    seconds = one.until_generation();
    cr_expect(near(seconds, daly_interval_ns(2 * ns_per_s, 50 * hour_ns) / ns_per_s), "%lu s", seconds);
    cr_expect_eq(one.pace.interval_ns(), daly_interval_ns(2 * ns_per_s, 50 * hour_ns));
    one.node.slot.stall_ns = ns_per_ms;
    one.node.slot.drain_ns = 300 * ns_per_s;
    one.until_generation();
    one.until_generation();
    seconds = one.until_generation();
    cr_expect(near(seconds, 300), "never below the drain: %lu s", seconds);
}

Test(agent_interval, a_new_leader_takes_the_cost_from_the_slots) {
    trainee one(50 * hour_ns);
    one.node.slot.stall_ns = 2 * ns_per_s;
    const uint64_t seconds = one.until_generation();
    cr_expect(seconds > 500, "%lu s", seconds);
}
