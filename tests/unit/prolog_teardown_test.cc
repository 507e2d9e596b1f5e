// The end of an agent: by the epilog, by the next prolog, with damaged or no state, and of one that does not end.
#include "prolog_setup_support.h"

using namespace setup_test;

TestSuite(teardown, .init = setup, .fini = teardown, .timeout = 30);

Test(teardown, what_a_dead_agent_left_is_cleaned) {
    AS_ROOT();
    const state first = ready_agent();
    ::kill(first.agent_pid, SIGKILL);
    ::waitpid(first.agent_pid, nullptr, 0);
    const state second = set_up(asked(), job_id, where);
    cr_assert(second.ready, "%s", second.reason.c_str());
    write_text(job_path() + "/state.json", "{broken", 0644);
    const state third = set_up(asked(), job_id, where);
    cr_assert(third.ready, "%s", third.reason.c_str());
    cr_assert(agent_alive(third));
    // Where the host lets it have no control group, nothing names it any more.
    if (second.cgroup) cr_assert(!agent_alive(second));
    else ::kill(second.agent_pid, SIGKILL);
}

Test(teardown, the_epilog_ends_an_agent_whose_state_is_damaged) {
    AS_ROOT();
    state of_another_job;
    of_another_job.job_id = job_id + 1;
    for (const std::string& text : {std::string("{broken"), encode_state(of_another_job)}) {
        const state made = ready_agent();
        if (!made.cgroup) {
            ::kill(made.agent_pid, SIGKILL);
            cr_skip_test("no memory control group: %s", made.cgroup_reason.c_str());
        }
        write_text(job_path() + "/state.json", text, 0644);
        cr_assert(end_job(where.run_directory, job_id, 1000).has_value());
        expect_nothing_left(made);
    }
}

// As one that the kernel holds in hanging storage.
static result<stop_outcome> agent_that_survives(const state&, int) {
    return fail(code::timeout, "1 processes of the agent survived");
}

static void expect_still_named(const state& now, const state& first) {
    cr_assert(now.agent_pid == first.agent_pid && now.agent_start_ticks == first.agent_start_ticks &&
              now.cgroup == first.cgroup);
    cr_assert(agent_alive(first), "the test's agent lives, as one does that cannot be ended");
}

Test(teardown, the_epilog_keeps_the_state_of_an_agent_that_does_not_end) {
    AS_ROOT();
    const state made = ready_agent();
    const auto ended = end_job(where.run_directory, job_id, 500, agent_that_survives);
    cr_assert(!ended.has_value() && ended.error().context.find("survived") != std::string::npos);
    const auto directory = job_directory::open(where.run_directory, job_id);
    cr_assert(*read_state(*directory) == made);
    cr_assert(end_job(where.run_directory, job_id, 500).has_value(), "the next epilog");
    expect_nothing_left(made);
}

Test(teardown, an_earlier_agent_that_does_not_end_degrades_and_stays_named) {
    AS_ROOT();
    const state first = ready_agent();
    const state second = set_up(asked(1), job_id, where, agent_that_survives);
    expect_degraded(second, "the agent of an earlier start is left: 1 processes of the agent survived");
    expect_still_named(second, first);
    cr_assert_eq(second.restart_count, 1);
    cr_assert(!exists(job_path() + "/agent.sock"));
    const state third = set_up(asked(1), job_id, where);
    cr_assert(third.ready, "%s", third.reason.c_str());
    cr_assert(!agent_alive(first), "the next prolog has ended it");
}

Test(teardown, an_agent_that_cannot_be_taken_down_stays_named) {
    AS_ROOT();
    write_text(where.config, "prolog: {ready_ms: 200}\n", 0644);
    agent_script("exec sleep 60");
    static pid_t refused = 0;
    const state made = set_up(asked(), job_id, where, [](const state& what, int) -> result<stop_outcome> {
        refused = what.agent_pid;
        if (what.agent_pid == 0) return stop_outcome::gone;  // there was none before
        return agent_that_survives(what, 0);
    });
    expect_degraded(made, "not ready");
    cr_assert(refused > 0 && made.agent_pid == refused && agent_alive(made));
    cr_assert(!exists(job_path() + "/agent.sock"));
    cr_assert(end_job(where.run_directory, job_id, 0).has_value());
    expect_nothing_left(made);
}

Test(teardown, the_epilog_lets_the_agent_drain) {
    AS_ROOT();
    cr_assert_eq(::mkdir((folder + "/shared").c_str(), 0777), 0);
    cr_assert_eq(::chmod((folder + "/shared").c_str(), 0777), 0);
    const state made = ready_agent("trap 'sleep 0.3; echo drained >" + folder +
                                   "/shared/drained; exit 0' TERM; echo ready >&4\n"
                                   "sleep 60 & wait");
    const uint64_t start = mono_ns();
    cr_assert(end_job(where.run_directory, job_id, 10'000).has_value());
    const uint64_t took = (mono_ns() - start) / ns_per_ms;
    cr_assert(took >= 290 && took < 2000, "%lu ms", took);
    cr_assert(read_text(folder + "/shared/drained") == "drained\n");
    expect_nothing_left(made);
}

Test(teardown, the_epilog_kills_an_agent_that_does_not_end) {
    AS_ROOT();
    const state made = ready_agent(
        "trap '' TERM; (trap '' TERM; while :; do sleep 0.1; done) & echo ready >&4; while :; do sleep 0.1; done");
    const uint64_t start = mono_ns();
    cr_assert(end_job(where.run_directory, job_id, 500).has_value());
    const uint64_t took = (mono_ns() - start) / ns_per_ms;
    cr_assert(took >= 490 && took < 3000, "%lu ms", took);
    expect_nothing_left(made);
    cr_assert(processes_of_session({made.agent_pid, made.agent_start_ticks}, user).empty());
}

Test(teardown, the_control_group_holds_what_has_left_the_session) {
    AS_ROOT();
    const state made = ready_agent("setsid sleep 61 & echo ready >&4; exec sleep 60");
    if (!made.cgroup) cr_skip_test("no memory control group: %s", made.cgroup_reason.c_str());
    cr_assert(end_job(where.run_directory, job_id, 1000).has_value());
    cr_assert(!exists(*cgroup_path(job_id)));
}

Test(teardown, the_epilog_twice_and_without_prolog) {
    AS_ROOT();
    cr_assert(end_job(where.run_directory, job_id, 1000).has_value(), "no run directory at all");
    const state made = ready_agent();
    cr_assert(end_job(where.run_directory, job_id, 1000).has_value());
    cr_assert(end_job(where.run_directory, job_id, 1000).has_value());
    expect_nothing_left(made);
}

Test(teardown, the_epilog_leaves_other_jobs_alone) {
    AS_ROOT();
    const state mine = ready_agent();
    const uint32_t first = job_id;
    job_id += 100'000;
    const state other = ready_agent();
    cr_assert(end_job(where.run_directory, job_id, 1000).has_value());
    cr_assert(!agent_alive(other));
    cr_assert(agent_alive(mine));
    job_id = first;
    cr_assert(exists(job_path() + "/agent.sock"));
}

Test(teardown, the_epilog_leaves_a_stranger_with_the_agents_number_alone) {
    AS_ROOT();
    state made = ready_agent();
    const auto directory = job_directory::open(where.run_directory, job_id);
    const pid_t agent = made.agent_pid;
    const pid_t stranger = ::fork();
    if (stranger == 0) {
        ::setsid();
        ::pause();
        ::_exit(0);
    }
    made.agent_pid = stranger;  // the right number, another start
    cr_assert(write_state(*directory, made).has_value());
    cr_assert(end_job(where.run_directory, job_id, 500).has_value());
    cr_assert_eq(::kill(stranger, 0), 0, "the stranger lives");
    ::kill(stranger, SIGKILL);
    ::waitpid(stranger, nullptr, 0);
    ::kill(agent, SIGKILL);
}

// A /run that outlives a start of the system: numbers and start times begin anew, so even both together may be a
// stranger's.
Test(teardown, processes_of_an_earlier_start_of_the_system_are_strangers) {
    AS_ROOT();
    state made = ready_agent();
    const state agent = made;
    const auto directory = job_directory::open(where.run_directory, job_id);
    made.boot = "an-earlier-one";
    made.probe = {made.agent_pid, made.agent_start_ticks};
    made.job_id = job_id + 1;  // a job of that start: this one's control group is not its
    const auto stale = job_directory::create(where.run_directory, made.job_id);
    cr_assert(stale.has_value() && write_state(*stale, made).has_value());
    cr_assert(end_job(where.run_directory, made.job_id, 500).has_value());
    cr_assert(!exists(stale->path()));
    cr_assert(agent_alive(agent));
    // The same number of a job comes again, with the same uid and start.
    made.job_id = job_id;
    cr_assert(write_state(*directory, made).has_value());
    const state again = set_up(asked(), job_id, where);
    cr_assert(again.ready && again.agent_pid != agent.agent_pid && again.boot == boot_id());
    if (agent_alive(agent)) ::kill(agent.agent_pid, SIGKILL);  // where no control group named it
}

// A session whose number the agent's once was: its leader is gone, and what runs in it is somebody else's.
Test(teardown, a_later_session_of_the_agents_number_is_left_alone) {
    AS_ROOT();
    int ends[2];
    cr_assert_eq(::pipe(ends), 0);
    const pid_t leader = ::fork();
    if (leader == 0) {
        ::setsid();
        const pid_t stranger = ::fork();
        if (stranger == 0) {
            ::sleep(60);
            ::_exit(0);
        }
        ::_exit(::write(ends[1], &stranger, sizeof stranger) == sizeof stranger ? 0 : 1);
    }
    pid_t stranger = 0;
    cr_assert_eq(::read(ends[0], &stranger, sizeof stranger), static_cast<ssize_t>(sizeof stranger));
    cr_assert_eq(::waitpid(leader, nullptr, 0), leader);
    cr_assert(end_session({leader, 1}, user, 1000).has_value());
    cr_assert_eq(::kill(stranger, 0), 0, "root's own process, not the user's");
    cr_assert(end_session({leader, 1}, ::geteuid(), 1000).has_value());
    cr_assert(!read_process(stranger) || read_process(stranger)->zombie);
}
