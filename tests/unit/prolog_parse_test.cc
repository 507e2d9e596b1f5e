// What prolog and epilog read: environment, /proc, slurm.conf, state.json.  No root needed.
#include "prolog/cgroup.h"
#include "prolog/memory.h"
#include "prolog/process_table.h"
#include "prolog/request.h"
#include "prolog/slurm_host.h"
#include "prolog/state.h"
#include "prolog/text_file.h"

#include <criterion/criterion.h>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sys/resource.h>
#include <unistd.h>

using namespace varde;
using namespace varde::node;

static std::map<std::string, std::string> table;
static const char* look_up(const char* name) {
    const auto found = table.find(name);
    return found == table.end() ? nullptr : found->second.c_str();
}

static void good_environment() {
    table = {{"SLURM_JOB_ID", "7"},        {"SLURM_JOB_UID", "1000"},        {"SLURM_JOB_GID", "1000"},
             {"SLURM_JOB_USER", "anna"},   {"SLURM_JOB_RESTART_COUNT", "2"}, {"SPANK_VARDE_INTERVAL", "20m"},
             {"SPANK_VARDE_MEMORY", "1G"}, {"SLURM_JOB_NUM_NODES", "192"},   {"SLURM_JOB_WORK_DIR", "/home/anna"}};
}
TestSuite(request, .init = good_environment);

Test(request, reads_the_job) {
    const auto asked = read_request(look_up);
    cr_assert(asked.has_value(), "%s", asked.has_value() ? "" : asked.error().context.c_str());
    cr_assert_eq(asked->job_id, 7);
    cr_assert_eq(asked->uid, 1000);
    cr_assert_eq(asked->gid, 1000);
    cr_assert_eq(asked->restart_count, 2);
    cr_assert(asked->user == "anna" && asked->work_directory == "/home/anna" && asked->job_name.empty());
    cr_assert_eq(asked->node_count, 192);
    cr_assert_eq(*asked->wish.interval_s, 1200);
    cr_assert_eq(*asked->wish.memory_bytes, 1ULL << 30);
}

Test(request, what_may_be_missing) {
    table.erase("SLURM_JOB_RESTART_COUNT");
    table.erase("SLURM_JOB_USER");
    const auto asked = read_request(look_up);
    cr_assert(asked.has_value() && asked->restart_count == 0 && asked->user.empty());
}

static void expect_refused(const char* name, const char* value, const char* part) {
    good_environment();
    if (value == nullptr) table.erase(name);
    else table[name] = value;
    const auto asked = read_request(look_up);
    cr_assert(!asked.has_value(), "%s=%s was taken", name, value ? value : "(unset)");
    cr_assert(asked.error().context.find(part) != std::string::npos, "%s", asked.error().context.c_str());
    cr_assert(asked.error().context.find('\n') == std::string::npos);
}

Test(request, refuses_hostile_values) {
    expect_refused("SLURM_JOB_ID", nullptr, "SLURM_JOB_ID is not set");
    for (const char* bad : {"", "0", "-1", "7/../8", "../7", "7 ", "4294967295", "99999999999999999999", "7\n8", "0x7"})
        expect_refused("SLURM_JOB_ID", bad, "SLURM_JOB_ID");
    expect_refused("SLURM_JOB_UID", nullptr, "SLURM_JOB_UID");
    expect_refused("SLURM_JOB_UID", "0", "root's jobs");
    expect_refused("SLURM_JOB_UID", "-1", "SLURM_JOB_UID");
    expect_refused("SLURM_JOB_UID", "4294967295", "SLURM_JOB_UID");
    expect_refused("SLURM_JOB_GID", "users", "SLURM_JOB_GID");
    expect_refused("SLURM_JOB_NUM_NODES", "two", "SLURM_JOB_NUM_NODES");
    expect_refused("SLURM_JOB_RESTART_COUNT", "many", "SLURM_JOB_RESTART_COUNT");
    expect_refused("SPANK_VARDE_INTERVAL", "$(reboot)", "SPANK_VARDE_INTERVAL");
    expect_refused("SPANK_VARDE_MEMORY", "1000T", "SPANK_VARDE_MEMORY");
    expect_refused("SPANK_VARDE_NAME", "../../etc", "SPANK_VARDE_NAME");
    expect_refused("SPANK_VARDE_DIR", "/p\nroot:x:0", "SPANK_VARDE_DIR");
    expect_refused("SPANK_VARDE_KEEP", "0", "SPANK_VARDE_KEEP");
}

Test(process_table, reads_a_name_that_looks_like_facts) {
    const auto facts =
        parse_stat("42 (a) S 1 (b) R 9 9) S 10 42 41 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 7 8\n");
    cr_assert(facts.has_value());
    cr_assert_eq(facts->parent, 10);
    cr_assert_eq(facts->session, 41);
    cr_assert_eq(facts->start_ticks, 123456);
    cr_assert(!facts->zombie);
    for (const char* bad :
         {"", "42", "42 (a", "42 (a) S 1 2", "42 (a) S x 42 41 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 7"})
        cr_assert(!parse_stat(bad).has_value(), "'%s'", bad);
}

Test(process_table, a_number_with_another_start_is_another_process) {
    const auto self = read_process(::getpid());
    cr_assert(self.has_value());
    cr_assert(open_process(::getpid(), self->start_ticks).has_value());
    cr_assert(!open_process(::getpid(), self->start_ticks + 1).has_value());
    cr_assert(!open_process(0, 0).has_value());
    cr_assert(!open_process(-1, 0).has_value());
    cr_assert(processes_of_session({::getpid(), self->start_ticks + 1}, ::geteuid()).empty());
}

Test(cgroup, finds_the_hierarchy_of_a_controller) {
    const auto unified =
        find_hierarchy("30 20 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n", "memory");
    cr_assert(unified.has_value() && unified->unified && unified->path == "/sys/fs/cgroup");
    const std::string both =
        "30 20 0:26 / /sys/fs/cgroup/unified rw shared:1 - cgroup2 cgroup2 rw\n"
        "31 20 0:27 / /sys/fs/cgroup/memory rw shared:2 - cgroup cgroup rw,memory\n"
        "32 20 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
    const auto hybrid = find_hierarchy(both, "memory");
    cr_assert(find_hierarchy(both, "cpu")->path == "/sys/fs/cgroup/cpu");
    cr_assert(hybrid.has_value() && !hybrid->unified && hybrid->path == "/sys/fs/cgroup/memory");
    for (const char* none : {"", "garbage\n", "1 2 3 - cgroup2\n", "32 20 0:28 / /c rw - cgroup cgroup rw,cpu\n"})
        cr_assert(!find_hierarchy(none, "memory").has_value(), "'%s'", none);
}

Test(cgroup, a_group_is_found_by_the_jobs_number_and_need_not_be_there) {
    const auto path = cgroup_path(4294967294);
    if (!path) cr_assert(path.error().what == code::unavailable, "%s", path.error().context.c_str());
    else cr_assert(path->ends_with("/varde/4294967294"), "%s", path->c_str());
    cr_assert(remove_cgroup(4294967294, 0).has_value());
}

Test(memory, reads_meminfo) {
    const auto node = parse_meminfo("MemTotal:       24683720 kB\nMemFree:          100 kB\nMemAvailable:   2048 kB\n");
    cr_assert(node.has_value());
    cr_assert_eq(node->total_bytes, 24683720ULL * 1024);
    cr_assert_eq(node->available_bytes, 2048ULL * 1024);
    for (const char* bad :
         {"", "MemTotal: 1 kB\n", "MemTotal: x kB\nMemAvailable: 1 kB\n", "MemTotal: 1\nMemAvailable: 1\n",
          "MemTotal: 99999999999999999 kB\nMemAvailable: 99999999999999999999 kB\n"})
        cr_assert(!parse_meminfo(bad).has_value(), "'%s'", bad);
    cr_assert(read_node_memory().has_value());
}

Test(memory, a_refusal_says_need_available_and_what_to_set) {
    const auto fits = check_arena_fits(64ULL << 30, {128ULL << 30, 12ULL << 30});
    cr_assert(!fits.has_value() && fits.error().what == code::no_memory);
    for (const char* part : {"64 GiB", "12 GiB", "128 GiB", "--ckpt-memory", "agent.memory"})
        cr_assert(fits.error().context.find(part) != std::string::npos, "%s", fits.error().context.c_str());
    cr_assert(check_arena_fits(1, {2, 1}).has_value());
}

Test(slurm_host, finds_the_programs_beside_the_daemon) {
    cr_assert(*bin_directory_of("/usr/sbin/slurmd") == "/usr/bin");
    cr_assert(*bin_directory_of("/opt/slurm-26.05/sbin/slurmstepd") == "/opt/slurm-26.05/bin");
    cr_assert(*bin_directory_of("/opt/slurm/sbin/slurmd (deleted)") == "/opt/slurm/bin");
    for (const char* other : {"", "slurmd", "/slurmd", "/usr/bin/bash", "/usr/slurm/bash"})
        cr_assert(!bin_directory_of(other).has_value(), "'%s'", other);
    cr_assert(find_bin_directory("/configured/bin") == "/configured/bin");
    cr_assert(find_bin_directory("") == "/usr/bin");
}

Test(slurm_host, checks_prolog_flags) {
    for (const char* good : {"PrologFlags=Alloc,DeferBatch\n", "prologflags = DEFERBATCH , contain # why\n",
                             "#PrologFlags=none\nPrologFlags=DeferBatch,Alloc", "Include other.conf\n",
                             "PrologFlags=RunInJob,DeferBatch\n"})
        cr_assert(!missing_prolog_flags(good).has_value(), "'%s': %s", good, missing_prolog_flags(good)->c_str());
    cr_assert(missing_prolog_flags("PrologFlags=Alloc\n")->find("lacks DeferBatch") != std::string::npos);
    cr_assert(missing_prolog_flags("PrologFlags=DeferBatch\n")->find("lacks Alloc,") != std::string::npos);
    for (const char* bad : {"", "ClusterName=x\n", "# PrologFlags=Alloc,DeferBatch\n", "PrologFlags=\n"})
        cr_assert(missing_prolog_flags(bad)->find("lacks Alloc and DeferBatch") != std::string::npos, "'%s'", bad);
}

Test(text_file, what_does_not_fit_is_a_failure) {
    char folder[] = "/tmp/varde-text-XXXXXX";
    cr_assert(::mkdtemp(folder) != nullptr);
    const std::string path = std::string(folder) + "/file";
    const std::string most(4 << 20, 'x');
    std::ofstream(path) << most;
    cr_assert(*read_text(path) == most);
    std::ofstream(path, std::ios::app) << 'x';
    const auto long_text = read_text(path);
    cr_assert(!long_text.has_value() && long_text.error().context.find("4 MiB") != std::string::npos);

    // The kernel takes a write in part where the file may not get longer.
    std::filesystem::resize_file(path, 0);
    rlimit before{};
    ::getrlimit(RLIMIT_FSIZE, &before);
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit ten{10, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &ten);
    const auto whole = write_text(path, "0123456789");
    const auto part = write_text(path, "0123456789abc");
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::filesystem::remove_all(folder);
    cr_assert(whole.has_value());
    cr_assert(!part.has_value() && part.error().context.find("10 of 13 bytes") != std::string::npos);
}

static state sample() {
    state made;
    made.job_id = 7;
    made.uid = 1000;
    made.restart_count = 2;
    made.boot = "1-2-3";
    made.ready = true;
    made.reason = "quote \" and backslash \\";
    made.agent_pid = 4242;
    made.agent_start_ticks = UINT64_MAX;
    made.arena_bytes = 1ULL << 40;
    made.cgroup = true;
    made.cgroup_reason = "none";
    made.directory = "/flash/anna";
    made.directory_problem = "checkpoint directory '/flash/anna' did not answer";
    made.probe = {43, 17};
    made.storage = {"/flash", "nfs4", {{"10.1.0.5", "ib0"}, {"10.1.0.6", ""}}, 9000, 200'000, "a problem"};
    return made;
}

Test(state, comes_back_as_written) {
    const auto back = decode_state(encode_state(sample()));
    cr_assert(back.has_value() && *back == sample());
    cr_assert(*decode_state(encode_state(state{})) == state{});
}

Test(state, hostile_texts_become_printable) {
    state made = sample();
    made.reason = "a\nb\xff\x1b" + std::string(5000, 'x');
    const auto back = decode_state(encode_state(made));
    cr_assert(back.has_value() && back->reason.starts_with("a?b??x") && back->reason.size() < 1100);
}

// A job that an older prolog has set up ends with the new epilog.
Test(state, of_an_older_prolog_is_understood) {
    state made;
    made.job_id = 7;
    made.agent_pid = 4242;
    std::string text = encode_state(made);
    for (const char* younger : {"\"boot\":\"\",", "\"directory\":\"\",", "\"directory_problem\":\"\",",
                                "\"probe_pid\":0,", "\"probe_start_ticks\":0,"}) {
        cr_assert(text.find(younger) != std::string::npos, "%s", text.c_str());
        text.erase(text.find(younger), std::string(younger).size());
    }
    cr_assert(*decode_state(text) == made);
}

Test(state, refuses_another_form) {
    const std::string good = encode_state(sample());
    for (size_t length = 0; length + 2 < good.size(); length++)
        cr_assert(!decode_state(good.substr(0, length)).has_value(), "%zu bytes", length);
    for (const auto& [from, to] : std::map<std::string, std::string>{{"4242", "-4242"},
                                                                     {"4242", "\"4242\""},
                                                                     {"\"ready\"", "\"fine\""},
                                                                     {"\"job\":7", "\"job\":4294967296"},
                                                                     {"\"cgroup\":true", "\"cgroup\":\"/varde/7\""},
                                                                     {"\"probe_pid\":43", "\"probe_pid\":-43"},
                                                                     {"\"mtu\":9000", "\"mtu\":-1"},
                                                                     {"\"interface\":\"\"", "\"interface\":0"},
                                                                     {"\"uid\"", "\"gid\""}}) {
        std::string bad = good;
        bad.replace(bad.find(from), from.size(), to);
        cr_assert(!decode_state(bad).has_value(), "%s", bad.c_str());
    }
    cr_assert(!decode_state("[]").has_value());
    cr_assert(!decode_state("null").has_value());
}
