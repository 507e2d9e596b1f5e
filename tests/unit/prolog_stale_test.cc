// What jobs left that ended without an epilog, at the start of the system.
#include "prolog_setup_support.h"

#include "epilog/stale.h"

using namespace setup_test;

TestSuite(stale, .init = setup, .fini = teardown, .timeout = 30);

Test(stale, what_a_dead_agent_left_goes_and_a_living_one_stays) {
    AS_ROOT();
    const state dead = ready_agent("setsid sleep 62 & echo ready >&4; exec sleep 60");
    const uint32_t of_the_dead = job_id;
    ::kill(dead.agent_pid, SIGKILL);
    ::waitpid(dead.agent_pid, nullptr, 0);
    job_id += 100'000;
    const state living = ready_agent();

    end_stale_jobs(where.run_directory);
    cr_assert(agent_alive(living));
    cr_assert(exists(job_path() + "/agent.sock"));
    const std::string cgroup_of_the_dead = cgroup_path(of_the_dead) ? *cgroup_path(of_the_dead) : "";
    cr_assert(!exists(where.run_directory + "/" + std::to_string(of_the_dead)));
    cr_assert(!dead.cgroup || !exists(cgroup_of_the_dead), "with the process that was left in it");
}

// A /run on disk: the numbers of the last boot's processes are strangers' now, or nobody's.
Test(stale, state_of_an_earlier_boot_goes_and_no_process_is_touched) {
    AS_ROOT();
    auto directory = job_directory::create(where.run_directory, job_id);
    cr_assert(directory.has_value());
    cr_assert(directory->listen(user, user).has_value());
    state earlier;
    earlier.job_id = job_id;
    earlier.agent_pid = ::getpid();  // the right number, another start
    earlier.agent_start_ticks = 1;
    cr_assert(write_state(*directory, earlier).has_value());
    end_stale_jobs(where.run_directory);
    cr_assert(!exists(job_path()));
}

Test(stale, only_jobs_of_a_directory_of_roots_are_touched) {
    AS_ROOT();
    end_stale_jobs(where.run_directory);
    cr_assert(!exists(where.run_directory), "nothing is made");
    auto directory = job_directory::create(where.run_directory, job_id);
    cr_assert(directory.has_value());
    write_text(where.run_directory + "/notes", "an administrator's", 0644);
    std::filesystem::create_directories(where.run_directory + "/0");
    ::chmod(where.run_directory.c_str(), 0777);
    end_stale_jobs(where.run_directory);
    cr_assert(exists(job_path()), "a directory that others may write names no job");
    ::chmod(where.run_directory.c_str(), 0755);
    end_stale_jobs(where.run_directory);
    cr_assert(!exists(job_path()));
    cr_assert(exists(where.run_directory + "/notes") && exists(where.run_directory + "/0"));
}

// Slurm runs an epilog once: what it could not end, the epilog of the next job does.
Test(stale, what_an_epilog_had_to_leave_goes_with_the_next_one) {
    AS_ROOT();
    const state held = ready_agent();
    const uint32_t first = job_id;
    const auto hangs = [](const state&, int) -> result<stop_outcome> { return fail(code::timeout, "it hangs"); };
    const auto left = end_job(where.run_directory, first, 0, hangs);
    cr_assert(!left && left.error().context.find("tries again") != std::string::npos);
    job_id += 100'000;
    const state other = ready_agent();
    end_left_jobs(where.run_directory);
    cr_assert(agent_alive(held), "as long as it lives it is not waited for");
    ::kill(held.agent_pid, SIGKILL);
    ::waitpid(held.agent_pid, nullptr, 0);
    end_left_jobs(where.run_directory);
    cr_assert(!exists(where.run_directory + "/" + std::to_string(first)));
    cr_assert(agent_alive(other) && exists(job_path()), "nobody has left that one");
}
