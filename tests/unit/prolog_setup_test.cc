// The prolog as a function: set-up, failure, twice.
#include "huge_pages.h"
#include "prolog_setup_support.h"

using namespace setup_test;

TestSuite(setup, .init = setup, .fini = teardown, .timeout = 30);

Test(setup, starts_the_agent_as_the_user) {
    AS_ROOT();
    const state made = ready_agent();
    cr_assert_eq(made.uid, user);
    const std::string status = read_text("/proc/" + std::to_string(made.agent_pid) + "/status");
    cr_assert(status.find("Uid:\t61234\t61234\t61234\t61234") != std::string::npos, "%s", status.c_str());
    cr_assert(status.find("Gid:\t61234\t61234\t61234\t61234") != std::string::npos);
    cr_assert(status.find("Groups:\t61234 \n") != std::string::npos, "%s", status.c_str());
    cr_assert(status.find("NoNewPrivs:\t1") != std::string::npos);
    cr_assert(status.find("CapEff:\t0000000000000000") != std::string::npos);
    cr_assert(status.find("CapPrm:\t0000000000000000") != std::string::npos);
    const auto facts = read_process(made.agent_pid);
    cr_assert_eq(facts->session, made.agent_pid);
}

Test(setup, gives_the_agent_its_arguments_and_environment) {
    AS_ROOT();
    ::setenv("SPANK_VARDE_INTERVAL", "1m", 1);
    ::setenv("SECRET", "of root", 1);
    ::setenv("SLURM_CONF", "/etc/slurm/slurm.conf", 1);
    ::setenv("SLURMD_NODENAME", "gpu-a7", 1);
    cr_assert_eq(::mkdir((folder + "/shared").c_str(), 0777), 0);
    cr_assert_eq(::chmod((folder + "/shared").c_str(), 0777), 0);
    const int leaked = ::open("/etc/passwd", O_RDONLY);  // without close-on-exec
    write_text(where.agent,
               "#!/usr/bin/python3\n"
               "import os, resource, sys, time\n"
               "out = open('" +
                   folder +
                   "/shared/said', 'w')\n"
                   "print('arguments', *sys.argv[1:], file=out)\n"
                   "fds = [fd for fd in range(1000) if os.path.exists(f'/proc/self/fd/{fd}') and fd != out.fileno()]\n"
                   "print('fds', *fds, *(os.readlink(f'/proc/self/fd/{fd}') for fd in (0, 1, 2)), file=out)\n"
                   "print('environment', *sorted(f'{name}={value}' for name, value in os.environ.items()), file=out)\n"
                   "print('oom', open('/proc/self/oom_score_adj').read().strip(), 'in', os.getcwd(), file=out)\n"
                   "soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)\n"
                   "print('locked', soft == hard, file=out)\n"
                   "out.close()\n"
                   "os.write(4, b'ready\\n')\n"
                   "time.sleep(60)\n",
               0755);
    const state made = set_up(asked(), job_id, where);
    ::close(leaked);
    cr_assert(made.ready, "%s", made.reason.c_str());
    const std::string id = std::to_string(job_id);
    const std::string said = read_text(folder + "/shared/said");
    const std::string expected = "arguments --listen-fd 3 --ready-fd 4 --job " + id +
                                 " --restart-count 0 --arena-bytes 1048576 --slurm-bin /usr/bin --config " +
                                 where.config + " --max-restarts 100 --plan " + where.run_directory + "/" + id +
                                 "/plan\nfds 0 1 2 3 4 /dev/null /dev/null /dev/null\n" +
                                 "environment LOGNAME=anna PATH=/usr/bin:/bin SLURMD_NODENAME=gpu-a7 "
                                 "SLURM_CONF=/etc/slurm/slurm.conf SLURM_JOB_ID=" +
                                 id + " USER=anna\noom 0 in /\nlocked True\n";
    // Python adds LC_CTYPE to an environment that has no locale.
    std::string without_locale = said;
    if (const size_t at = without_locale.find("LC_CTYPE=C.UTF-8 "); at != std::string::npos)
        without_locale.erase(at, 17);
    cr_assert(without_locale == expected, "%s", said.c_str());
}

// The plan of this machine; and huge pages of the kernel's own pools, as many as the arena needs and they lack.
Test(setup, the_arena_gets_a_plan_and_huge_pages) {
    AS_ROOT();
    const test::pools_of_our_own pools;
    const auto pages = [] {
        return std::stoull(read_text("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"));
    };
    const uint64_t before = pages();
    write_text(where.config, "agent: {huge_pages: 1G}\nprolog: {ready_ms: 2000}\n", 0644);
    agent_script("echo \"$*\" >" + folder + "/shared/said; echo ready >&4; exec sleep 60");
    cr_assert_eq(::mkdir((folder + "/shared").c_str(), 0777), 0);
    cr_assert_eq(::chmod((folder + "/shared").c_str(), 0777), 0);
    auto job = asked();
    job->wish.memory_bytes = (8 << 20) - 4096;  // too few for a page of 1 GiB, so that those of 2 MiB are taken
    const state made = set_up(job, job_id, where);
    cr_assert(made.ready, "%s", made.reason.c_str());
    cr_assert_eq(made.huge_page_bytes, 2 << 20);
    const std::string said = read_text(folder + "/shared/said");
    cr_assert(said.find(" --huge-pages 2097152") != std::string::npos, "%s", said.c_str());
    const auto plan = topo::parse_plan(read_text(where.run_directory + "/" + std::to_string(job_id) + "/plan"));
    cr_assert(plan.has_value(), "%s", plan ? "" : plan.error().context.c_str());
    cr_assert_eq(plan->arena_bytes, (8 << 20) - 4096);
    cr_assert(end_job(where.run_directory, job_id, 1000).has_value());
    cr_assert_eq(pages(), before);
    cr_assert(!std::filesystem::exists(where.run_directory + "/" + std::to_string(job_id)));
}

Test(setup, socket_and_state_have_the_right_owners) {
    AS_ROOT();
    ::umask(0);
    const state made = ready_agent();
    struct stat about {};
    cr_assert_eq(::stat(where.run_directory.c_str(), &about), 0);
    cr_assert(about.st_uid == 0 && (about.st_mode & 07777) == 0755);
    cr_assert_eq(::stat(job_path().c_str(), &about), 0);
    cr_assert(about.st_uid == 0 && (about.st_mode & 07777) == 0755);
    cr_assert_eq(::stat((job_path() + "/agent.sock").c_str(), &about), 0);
    cr_assert(S_ISSOCK(about.st_mode) && about.st_uid == user && (about.st_mode & 07777) == 0600);
    cr_assert_eq(::stat((job_path() + "/state.json").c_str(), &about), 0);
    cr_assert(about.st_uid == 0 && (about.st_mode & 07777) == 0644);
    const auto directory = job_directory::open(where.run_directory, job_id);
    cr_assert(*read_state(*directory) == made);
}

Test(setup, the_agent_has_the_listening_socket) {
    AS_ROOT();
    ready_agent(
        "echo ready >&4; exec python3 -c '\nimport socket\npeer, _ = "
        "socket.socket(fileno=3).accept()\npeer.sendall(b\"x\")\n'");
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    (job_path() + "/agent.sock").copy(address.sun_path, sizeof address.sun_path - 1);
    const unique_fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    cr_assert_eq(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    char byte = 0;
    cr_assert(::recv(socket.get(), &byte, 1, 0) == 1 && byte == 'x');
}

Test(setup, its_memory_is_bounded_where_the_host_allows) {
    AS_ROOT();
    const state made = ready_agent();
    cr_assert(made.cgroup == made.cgroup_reason.empty(), "one of both is said");
    if (!made.cgroup) cr_skip_test("no memory control group: %s", made.cgroup_reason.c_str());
    const std::string group = *cgroup_path(job_id);
    std::istringstream members(read_text(group + "/cgroup.procs"));
    pid_t pid = 0;
    members >> pid;
    cr_assert_eq(pid, made.agent_pid);
    std::string limit = read_text(group + "/memory.limit_in_bytes") + read_text(group + "/memory.max");
    cr_assert(limit == std::to_string((1ULL << 20) + (512ULL << 20)) + "\n", "%s", limit.c_str());
}

Test(setup, an_agent_that_is_degraded_says_why) {
    AS_ROOT();
    agent_script("echo 'degraded no io_uring\x1b[31m' >&4; exec sleep 60");
    const state made = set_up(asked(), job_id, where);
    expect_degraded(made, "no io_uring?[31m");
    cr_assert(agent_alive(made), "it works all the same");
    cr_assert(end_job(where.run_directory, job_id, 1000).has_value());
    expect_nothing_left(made);
}

Test(setup, an_agent_that_is_degraded_for_no_reason_is_not_ready) {
    AS_ROOT();
    for (const char* line : {"degraded ", "degraded"}) {
        agent_script("echo '" + std::string(line) + "' >&4; exec sleep 60");
        expect_degraded(set_up(asked(), job_id, where), "said 'degraded");
    }
}

Test(setup, failures_of_the_agent_degrade_the_node) {
    AS_ROOT();
    agent_script("exit 3");
    expect_degraded(set_up(asked(), job_id, where), "ended before it was ready");
    cr_assert(!exists(job_path() + "/agent.sock"));
    agent_script("echo nonsense >&4; exec sleep 60");
    expect_degraded(set_up(asked(), job_id, where), "said 'nonsense'");
    ::unlink(where.agent.c_str());
    expect_degraded(set_up(asked(), job_id, where), "couldn't start varde-agent: No such file");
}

Test(setup, a_slow_agent_is_taken_down) {
    AS_ROOT();
    write_text(where.config, "prolog: {ready_ms: 300}\n", 0644);
    agent_script("sleep 60 & echo $! >" + folder + "/run/child 2>/dev/null; exec sleep 60");
    const uint64_t start = mono_ns();
    const state made = set_up(asked(), job_id, where);
    cr_assert_lt((mono_ns() - start) / ns_per_ms, 900);
    expect_degraded(made, "not ready within 300 ms");
    cr_assert_eq(made.agent_pid, 0);
    cr_assert(!exists(job_path() + "/agent.sock"));
}

Test(setup, too_much_memory_degrades) {
    AS_ROOT();
    agent_script("echo ready >&4; exec sleep 60");
    auto greedy = asked();
    greedy->wish.memory_bytes = 1ULL << 43;
    expect_degraded(set_up(greedy, job_id, where), "8 TiB");
}

Test(setup, a_wrong_configuration_degrades_and_names_the_line) {
    AS_ROOT();
    write_text(where.config, "agent: {memory: lots}\n", 0644);
    expect_degraded(set_up(asked(), job_id, where), "varde.yaml:1");
    write_text(where.config, "agent: {memory: 1G}\n", 0666);
    expect_degraded(set_up(asked(), job_id, where), "chmod go-w");
}

Test(setup, a_refused_request_degrades) {
    AS_ROOT();
    expect_degraded(set_up(fail(code::invalid, "a hostile value"), job_id, where), "a hostile value");
}

Test(setup, twice_keeps_the_agent) {
    AS_ROOT();
    const state first = ready_agent();
    cr_assert(set_up(asked(), job_id, where) == first);
}

Test(setup, the_next_start_of_the_job_replaces_the_agent) {
    AS_ROOT();
    const state first = ready_agent("trap '' TERM; echo ready >&4; while :; do sleep 1; done");
    const state second = set_up(asked(1), job_id, where);
    cr_assert(second.ready, "%s", second.reason.c_str());
    cr_assert_neq(second.agent_pid, first.agent_pid);
    cr_assert(!agent_alive(first));
    cr_assert_eq(second.restart_count, 1);
}

Test(setup, follows_no_link_and_uses_no_foreign_directory) {
    AS_ROOT();
    agent_script("echo ready >&4; exec sleep 60");
    cr_assert_eq(::mkdir(where.run_directory.c_str(), 0755), 0);
    cr_assert_eq(::symlink("/tmp", job_path().c_str()), 0);
    state made = set_up(asked(), job_id, where);
    cr_assert(!made.ready && made.reason.find(job_path()) != std::string::npos, "%s", made.reason.c_str());
    cr_assert(end_job(where.run_directory, job_id, 0).has_value() == false);
    cr_assert(exists("/tmp"));
    ::unlink(job_path().c_str());
    cr_assert_eq(::mkdir(job_path().c_str(), 0777), 0);
    cr_assert_eq(::chown(job_path().c_str(), user, user), 0);
    made = set_up(asked(), job_id, where);
    cr_assert(!made.ready && made.reason.find("others than root may write it") != std::string::npos, "%s",
              made.reason.c_str());
    ::rmdir(job_path().c_str());
    ::chmod(where.run_directory.c_str(), 0777);
    made = set_up(asked(), job_id, where);
    cr_assert(!made.ready && made.reason.find("others than root may write it") != std::string::npos, "%s",
              made.reason.c_str());
}
