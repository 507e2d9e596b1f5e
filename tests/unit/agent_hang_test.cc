// What counts as a hang and what does not, and which rank has stopped first.
#include "agent/hang.h"
#include "agent/traces.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <csignal>
#include <filesystem>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace varde;
using namespace varde::agent;
using store::lull;
using store::phase;

namespace {

constexpr uint64_t timeout_ns = 60 * ns_per_s;
constexpr uint64_t gap_ns = 2 * ns_per_s;
constexpr uint64_t silence_ns = 30 * ns_per_s;

// Two nodes that train, and the clock that watches them.
struct run {
    run() : nodes(2) {
        for (size_t i = 0; i < nodes.size(); i++) {
            nodes[i].seen = true;
            nodes[i].slot.node_index = static_cast<uint32_t>(i);
            nodes[i].slot.now = phase::training;
        }
        step(10);
    }
    void step(uint64_t to) {
        for (auto& node : nodes) node.slot.step_min = node.slot.step_max = to;
    }
    void look(uint64_t since_ns = ns_per_s) {
        now_ns += since_ns;
        clock.observe({now_ns, 0, nodes}, silence_ns);
    }
    // Looks once a second for so long; true: it was a hang at the end.
    bool stand(uint64_t for_ns) {
        for (uint64_t passed_ns = 0; passed_ns < for_ns; passed_ns += ns_per_s) look();
        return clock.hung();
    }

    std::vector<sighting> nodes;
    uint64_t now_ns = 1000 * ns_per_s;
    hang_clock clock{timeout_ns, gap_ns};
};

rank_look waiting(uint32_t rank, uint64_t step = 41) {
    rank_look look;
    look.rank = rank;
    look.pid = 100 + static_cast<pid_t>(rank);
    look.step = step;
    look.process.there = true;
    look.process.state = 'S';
    return look;
}
rank_look computing(uint32_t rank, uint64_t step = 41) {
    auto look = waiting(rank, step);
    look.process.state = 'R';
    look.used_ns = ns_per_s;
    return look;
}
rank_look stopped(uint32_t rank) {
    auto look = waiting(rank);
    look.process.state = 'T';
    return look;
}

suspect judge(const std::vector<rank_look>& ranks) { return suspect_of(ranks, ns_per_s); }

sighting answer(suspicion how, uint64_t step) {
    sighting node;
    node.seen = true;
    node.slot.suspicion = static_cast<uint32_t>(how);
    node.slot.step_min = node.slot.step_max = step;
    return node;
}

}  // namespace

// ---- the clock

Test(hang_clock, no_step_for_the_timeout_with_all_nodes_alive_is_a_hang) {
    run r;
    r.look();
    cr_assert(!r.stand(timeout_ns - ns_per_s));
    cr_assert(r.stand(ns_per_s));
    r.step(11);
    r.look();
    cr_assert(!r.clock.hung(), "training goes on");
}

Test(hang_clock, one_rank_that_makes_steps_is_no_hang) {
    run r;
    for (uint64_t step = 11; step < 200; step++) {
        r.nodes[1].slot.step_max = step;
        r.look();
        cr_assert(!r.clock.hung());
    }
}

Test(hang_clock, never_where_nobody_asks_for_it) {
    run r;
    r.clock = hang_clock(0, gap_ns);
    cr_assert(!r.stand(1000 * ns_per_s));
}

Test(hang_clock, the_first_step_and_a_restore_may_take_as_long_as_they_like) {
    run r;
    r.step(0);
    for (auto& node : r.nodes) node.slot.quiet = lull::unstepped;
    cr_assert(!r.stand(1000 * ns_per_s));
    for (auto& node : r.nodes) node.slot.now = phase::loading;
    cr_assert(!r.stand(1000 * ns_per_s));
}

Test(hang_clock, a_node_that_says_why_it_makes_no_step_holds_it) {
    for (const lull why : {lull::traced, lull::unstepped, lull::storage}) {
        run r;
        r.nodes[1].slot.quiet = why;
        cr_assert(!r.stand(1000 * ns_per_s), "lull %u", static_cast<unsigned>(why));
        r.nodes[1].slot.quiet = lull::none;
        cr_assert(!r.stand(timeout_ns - ns_per_s), "it begins anew");
        cr_assert(r.stand(ns_per_s));
    }
}

Test(hang_clock, a_suspended_job_is_stopped_on_all_its_nodes_and_a_hung_one_is_not) {
    run r;
    for (auto& node : r.nodes) node.slot.quiet = lull::stopped;
    cr_assert(!r.stand(1000 * ns_per_s));
    r.nodes[0].slot.quiet = lull::none;
    cr_assert(r.stand(timeout_ns));
}

Test(hang_clock, a_silent_node_is_dead_and_no_hang) {
    run r;
    r.nodes[1].quiet_ns = silence_ns;
    cr_assert(!r.stand(1000 * ns_per_s));
}

Test(hang_clock, a_node_that_has_ended_is_no_hang) {
    run r;
    r.nodes[1].slot.now = phase::ended;
    cr_assert(!r.stand(1000 * ns_per_s));
}

Test(hang_clock, time_in_which_storage_hangs_does_not_count) {
    run r;
    r.look();
    for (int i = 0; i < 10; i++) r.look(1000 * ns_per_s);
    cr_assert(!r.clock.hung());
    cr_assert_eq(r.clock.stood_ns(), 10 * gap_ns);
}

// ---- why a node makes no step

Test(hang_lull, is_none_while_ranks_train) {
    cr_assert(lull_of(std::vector{waiting(0), computing(1)}) == lull::none);
    cr_assert(lull_of(std::vector{waiting(0), stopped(1)}) == lull::none, "one of two is no suspension");
}

Test(hang_lull, knows_a_debugger_a_suspension_and_what_is_no_step) {
    auto traced = waiting(1);
    traced.process.traced = true;
    cr_assert(lull_of(std::vector{waiting(0), traced}) == lull::traced);
    cr_assert(lull_of(std::vector{stopped(0), stopped(1)}) == lull::stopped);
    cr_assert(lull_of(std::vector{waiting(0), waiting(1, 0)}) == lull::unstepped, "not begun, or announced");
    auto left = waiting(1);
    left.left = true;
    cr_assert(lull_of(std::vector{waiting(0), left}) == lull::unstepped);
    auto storing = waiting(1);
    storing.stores = true;
    cr_assert(lull_of(std::vector{waiting(0), storing}) == lull::storage);
}

Test(hang_lull, a_rank_that_has_died_excuses_nothing) {
    auto gone = waiting(1);
    gone.gone = true;
    gone.process = {};
    cr_assert(lull_of(std::vector{waiting(0), gone}) == lull::none);
    cr_assert(lull_of(std::vector{gone}) == lull::none);
}

// ---- who stopped first on a node

Test(hang_suspect, is_what_is_certain_first) {
    auto gone = waiting(2);
    gone.gone = true;
    auto blocked = waiting(3);
    blocked.process.state = 'D';
    cr_assert(judge({waiting(0, 40), stopped(1), gone, blocked}).how == suspicion::ended);
    cr_assert_eq(judge({waiting(0, 40), stopped(1), gone, blocked}).rank, 2);
    cr_assert_eq(judge({waiting(0, 40), stopped(1), blocked}).rank, 1);
    cr_assert_eq(judge({waiting(0, 40), blocked, waiting(1)}).rank, 3);
    cr_assert(judge({waiting(0), stopped(1)}).text == "rank 1 (pid 101, step 41) is stopped by a signal");
}

Test(hang_suspect, is_the_one_behind_before_the_one_that_differs) {
    cr_assert_eq(judge({waiting(0), computing(1), waiting(2, 40)}).rank, 2);
}

Test(hang_suspect, is_the_one_that_differs) {
    cr_assert_eq(judge({waiting(0), waiting(1), computing(2), waiting(3)}).rank, 2);
    cr_assert(judge({waiting(0), waiting(1), computing(2), waiting(3)}).how == suspicion::differs);
    cr_assert_eq(judge({computing(0), waiting(1), computing(2), computing(3)}).rank, 1);
    cr_assert_eq(judge({waiting(0), computing(1)}).rank, 1, "of a pair, the one that computes");
    cr_assert(judge({waiting(0), waiting(1)}).how == suspicion::waits);
    cr_assert(judge({computing(0), computing(1)}).how == suspicion::computes);
}

// ---- who stopped first of all

Test(hang_first, is_decided_by_what_is_certain_then_by_steps_then_by_what_differs) {
    using how = suspicion;
    const auto first = [](std::vector<sighting> nodes) { return first_to_stop(nodes).value_or(99); };
    cr_assert_eq(first({answer(how::waits, 40), answer(how::stopped, 41)}), 1);
    cr_assert_eq(first({answer(how::waits, 41), answer(how::waits, 40), answer(how::differs, 41)}), 1);
    cr_assert_eq(first({answer(how::waits, 41), answer(how::differs, 41), answer(how::waits, 41)}), 1);
    cr_assert_eq(first({answer(how::waits, 41), answer(how::waits, 41), answer(how::computes, 41)}), 2);
    cr_assert_eq(first({answer(how::computes, 41), answer(how::waits, 41), answer(how::computes, 41)}), 1);
    cr_assert_eq(first({answer(how::waits, 41), answer(how::waits, 41)}), 99, "nobody stands out");
    cr_assert_eq(first({answer(how::none, 0), answer(how::stopped, 41)}), 1, "a node did not answer");
    cr_assert_eq(first({answer(how::none, 0), answer(how::none, 0)}), 99);
}

// ---- looking at processes

Test(hang_process, is_read_whatever_the_process_calls_itself) {
    const std::string stat = "71 (a) R (b) T 1 71 71 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 9 0 0";
    const auto found = parse_process(stat, "Name:\tx\nTracerPid:\t0\nUid:\t0\n", 100);
    cr_assert(found.there && found.state == 'T' && found.stopped() && !found.traced);
    cr_assert_eq(found.processor_ns, 3 * ns_per_s);
    cr_assert(parse_process(stat, "TracerPid:\t12\n", 100).traced);
    cr_assert(!parse_process("71 (x) Z 1 2 3", "", 100).there);
    for (const char* bad : {"", "71", "71 (x", "71 (x)", "71 (x) "}) cr_assert(!parse_process(bad, "", 100).stopped());
    cr_assert(!look_at_process(1 << 30).there);
}

namespace {

// A process of ours that waits, until the test ends.
pid_t start_waiter() {
    const pid_t pid = ::fork();
    if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) ::pause();
    }
    return pid;
}

template <class F>
void within_seconds(F what, const char* name) {
    for (const auto until = deadline::in_ms(30'000); !what(); ::usleep(10'000)) cr_assert(!until.passed(), "%s", name);
}

rank_look look_of(pid_t pid) {
    rank_look look;
    look.pid = pid;
    look.step = 1;
    return look;
}

}  // namespace

Test(hang_traces, tell_a_stopped_process_and_leave_it_stopped) {
    const pid_t pid = start_waiter();
    ::kill(pid, SIGSTOP);
    within_seconds([&] { return look_at_process(pid).stopped(); }, "stopped");
    std::vector ranks{look_of(pid)};
    look_twice(ranks, 10);
    const std::string page = describe(ranks[0], host_tracers(), deadline::in_ms(20'000));
    cr_assert(page.find("state T") != std::string::npos, "%s", page.c_str());
    cr_assert(page.find("that is left as it is") != std::string::npos, "%s", page.c_str());
    cr_assert(look_at_process(pid).stopped());
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
}

Test(hang_traces, say_what_to_install_where_nothing_shows_stacks) {
    const pid_t pid = start_waiter();
    std::vector ranks{look_of(pid)};
    look_twice(ranks, 10);
    const std::string page = describe(ranks[0], {{{"/nonexistent/tracer"}}}, deadline::in_ms(20'000));
    cr_assert(page.find("install elfutils") != std::string::npos, "%s", page.c_str());
    cr_assert(page.find("thread " + std::to_string(pid)) != std::string::npos, "%s", page.c_str());
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
}

Test(hang_traces, a_tracer_that_is_killed_while_it_holds_the_process_lets_it_go_on) {
    const pid_t pid = start_waiter();
    std::vector ranks{look_of(pid)};
    look_twice(ranks, 10);
    // As a debugger does that hangs: it has stopped the process, and is killed before it lets it go.
    const tracer hung{{"/bin/sh", "-c", "kill -STOP $0; echo held; exec sleep 100", "PID"}};
    const std::string page = describe(ranks[0], {hung}, deadline::in_ms(1000));
    cr_assert(page.find("was killed") != std::string::npos, "%s", page.c_str());
    within_seconds([&] { return look_at_process(pid).state == 'S'; }, "it goes on");
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
}

Test(hang_traces, show_the_stacks_where_the_host_has_a_program_for_it) {
    const auto all = host_tracers();
    cr_assert(std::any_of(all.begin(), all.end(),
                          [](const tracer& one) { return std::filesystem::exists(one.arguments[0]); }),
              "packaging/setup test installs gdb");
    const pid_t pid = start_waiter();
    std::vector ranks{look_of(pid)};
    look_twice(ranks, 10);
    const std::string page = describe(ranks[0], all, deadline::in_ms(60'000));
    cr_assert(page.find("stacks, by /usr/bin/") != std::string::npos, "%s", page.c_str());
    cr_assert(page.find("pause") != std::string::npos, "%s", page.c_str());
    within_seconds([&] { return look_at_process(pid).state == 'S' && !look_at_process(pid).traced; }, "it goes on");
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
}
