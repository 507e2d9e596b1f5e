// What `varde run` sees of its step in the roster: its own start only, who is silent, what is still being written.
#include "cli/roster_watch.h"

#include "base/clock.h"
#include "store/history.h"
#include "store_support.h"

#include <criterion/criterion.h>
#include <thread>

using namespace varde;
using namespace varde::cli;
using store_test::need;
using store_test::temporary_directory;

namespace {

constexpr uint64_t period_ns = 5 * ns_per_ms;
constexpr uint64_t silence_ns = 200 * ns_per_ms;
constexpr uint64_t give_up_ms = 60'000;

// A run of three nodes whose slots the test writes.
struct run_of_three {
    run_of_three() {
        run = need(store::run_directory::open(directory.path(), "run", true));
        roster = need(run->open_roster(true));
    }
    void write(uint32_t index, const std::string& launch, uint64_t incarnation, uint64_t step, bool draining = false) {
        store::slot slot;
        slot.node_index = index;
        slot.node_count = 3;
        slot.launch = launch;
        slot.incarnation = incarnation;
        slot.host = "n" + std::to_string(index + 1);
        slot.job_id = 7;
        slot.now = store::phase::training;
        slot.step_max = step;
        slot.drain_busy = draining ? 1 : 0;
        slot.sequence = ++sequence;
        need(roster->write(slot));
    }
    roster_watch watch(const std::string& launch) const {
        return {directory.path(), "run", launch, silence_ns, period_ns};
    }

    temporary_directory directory;
    std::optional<store::run_directory> run;
    std::optional<store::roster> roster;
    uint64_t sequence = 0;
};

}  // namespace

Test(cli_roster_watch, nothing_is_seen_before_the_step_has_opened_its_run) {
    const temporary_directory empty;
    roster_watch early(empty.path(), "run", "slurm 7.0.1", silence_ns, period_ns);
    cr_assert_eq(need(early.look()).incarnation, 0);
    cr_assert(!need(early.has_progress()));

    run_of_three of;
    auto watch = of.watch("slurm 7.0.1");
    for (uint32_t index = 0; index < 3; index++) of.write(index, "slurm 7.0.0", 4, 90);
    cr_assert_eq(need(watch.look()).incarnation, 0, "an earlier step's slots");
    of.write(0, "slurm 7.0.10", 5, 90);
    cr_assert_eq(need(watch.look()).incarnation, 0, "another step whose number begins alike");
    of.write(0, "slurm 7.0.1 torchrun none.0 n1:29500", 6, 100);
    const auto seen = need(watch.look());
    cr_assert(seen.incarnation == 6 && seen.last.step == 100 && seen.dead.empty());
}

Test(cli_roster_watch, a_node_is_dead_that_is_silent_while_training_stands) {
    run_of_three of;
    auto watch = of.watch("slurm 7.0.1");
    for (uint32_t index = 0; index < 3; index++) of.write(index, "slurm 7.0.1", 2, 50, index == 1);
    cr_assert(need(watch.look()).draining);
    run_sight seen;
    const auto until = deadline::in_ms(give_up_ms);
    while (seen.dead.empty() && !until.passed()) {
        of.write(0, "slurm 7.0.1", 2, 50);
        of.write(2, "slurm 7.0.1", 2, 50);
        std::this_thread::sleep_for(std::chrono::nanoseconds(period_ns));
        seen = need(watch.look());
    }
    cr_assert(seen.dead == std::vector<std::string>{"n2"});
    cr_assert(!seen.draining, "what the dead node was writing is not waited for");
    // It lives after all: training goes on.
    of.write(1, "slurm 7.0.1", 2, 51);
    cr_assert(need(watch.look()).dead.empty());
}

Test(cli_roster_watch, what_is_told_is_of_the_steps_incarnation) {
    run_of_three of;
    auto watch = of.watch("slurm 7.0.1");
    const store::history_event what{store::restarted_in_place, wall_ns(), 0, 7, 0, "n1", {{"onto", "n1,n3"}}, {}};
    need(watch.tell(what));  // nothing is known yet
    of.write(0, "slurm 7.0.1", 3, 0);
    need(watch.look());
    need(watch.tell(what));
    const auto told = need(of.run->read_history());
    cr_assert_eq(told.events.size(), 1);
    cr_assert(told.events[0].name == store::restarted_in_place && told.events[0].incarnation == 3);
    cr_assert_eq(told.events[0].text("onto"), "n1,n3");
}
