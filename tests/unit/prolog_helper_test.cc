// The decisions of the controller hook's helper, against squeue and scontrol of shell.
#include "epilog/controller/helper.h"

#include "base/clock.h"
#include "prolog_nodes.h"

#include <criterion/criterion.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace varde;
using namespace varde::controller;
using namespace controller_test;
using names = std::vector<std::string>;

namespace {

std::string folder;

void write_text(const std::string& name, const std::string& text, mode_t mode = 0644) {
    std::ofstream(folder + "/" + name) << text;
    ::chmod((folder + "/" + name).c_str(), mode);
}

std::string read_text(const std::string& name) {
    std::ostringstream text;
    text << std::ifstream(folder + "/" + name).rdbuf();
    return text.str();
}

// squeue says the lines of "job", one at each call, the last for ever, and why a job waits as often as "reasons" has
// lines; scontrol shows "nodes" and writes updates down.
void setup() {
    char path[] = "/tmp/varde-controller-XXXXXX";
    cr_assert(::mkdtemp(path) != nullptr);
    folder = path;
    write_text("reasons", "");
    write_text("shown", "");
    write_text("squeue",
               "#!/bin/bash\ncd " + folder +
                   "\nif [[ $* == *%r ]]; then head -n 1 reasons; sed -i 1d reasons; exit; fi\n"
                   "if [[ $* == *%N ]]; then [[ ! -e runs ]] || cat runs; exit; fi\nhead -n 1 job\n(($(wc "
                   "-l <job) < 2)) || sed -i 1d job\n",
               0755);
    write_text("scontrol",
               "#!/bin/bash\ncd " + folder +
                   "\ncase \"$*\" in\n"
                   "'show hostnames '*) tr , '\\n' <<<\"$3\" ;;\n"
                   "'--oneliner show node') cat nodes ;;\n"
                   "'--oneliner show node '*) for n in ${4//,/ }; do grep \"NodeName=$n \" nodes; done ;;\n"
                   "'--oneliner show job 7') cat shown ;;\n"
                   "'show config') echo 'SlurmdPort = 1' ;;\n"
                   "update*|release*) echo \"$*\" >>calls; [[ ! -e refuse ]] || { echo 'Access denied'; exit 1; } ;;\n"
                   "*) exit 9 ;;\nesac\n",
               0755);
}

void teardown() { std::filesystem::remove_all(folder); }

std::string line_of(const node_facts& node, const char* state = "ALLOCATED") {
    return "NodeName=" + node.name + " NodeAddr=127.0.0.1 State=" + state + " Port=" + std::to_string(node.port) + "\n";
}

std::string ahead() { return std::to_string(wall_ns() / ns_per_s + 600); }
std::string completing(const char* rest = "||") { return "COMPLETING|" + ahead() + rest + "\n"; }

names helped(const char* nodes = "n1,n2", int total_ms = 10'000, int forget_ms = 0) {
    helper_limits limits;
    limits.probe = quick;
    limits.total_ms = total_ms;
    limits.poll_ms = 20;
    limits.failures_max = 5;
    limits.forget_ms = forget_ms;
    limits.end_look_ms = limits.start_look_ms = 20;
    names log;
    help({"7", nodes}, slurm_tools(folder, {"PATH=/usr/bin:/bin"}), limits,
         [&log](const std::string& line) { log.push_back(line); });
    return log;
}

}  // namespace

TestSuite(helper, .init = setup, .fini = teardown, .timeout = 30);

Test(helper, a_job_that_ended_is_left_alone) {
    for (const char* end : {"COMPLETING|1000||\n", "CANCELLED|1000||\n", "FAILED|1000||\n", "\n", "RUNNING|NONE||\n"}) {
        write_text("job", end);
        cr_assert(helped().empty(), "%s", end);
    }
    cr_assert(read_text("calls").empty());
}

Test(helper, frees_the_job_from_a_dead_node_and_starts_it_without_it) {
    const node_socket good(false);
    const node_socket dead(true);
    write_text("nodes", line_of(good.facts("n1")) + line_of(dead.facts("n2")));
    write_text("job", completing() + completing() + completing() + "PENDING|N/A||\n");
    const names log = helped();
    cr_assert(read_text("calls") ==
                  "update NodeName=n2 State=DOWN Reason=varde: slurmd does not answer, job 7 requeued\n"
                  "update JobId=7 ExcNodeList=n2\nupdate JobId=7 StartTime=now\n",
              "%s", read_text("calls").c_str());
    cr_assert_eq(log.size(), 3);
}

Test(helper, where_all_nodes_answer_it_only_starts) {
    const node_socket good(false);
    write_text("nodes", line_of(good.facts("n1")) + line_of(good.facts("n2")));
    write_text("job", completing() + "PENDING|N/A||\n");
    helped();
    cr_assert(read_text("calls") == "update JobId=7 StartTime=now\n", "%s", read_text("calls").c_str());
}

Test(helper, a_job_that_shows_the_end_of_its_last_start_is_looked_at_again) {
    const node_socket good(false);
    write_text("nodes", line_of(good.facts("n1")) + line_of(good.facts("n2")));
    write_text("job", "COMPLETING|1000||\nCOMPLETING|1000||\n" + completing() + "PENDING|N/A||\n");
    helped();
    cr_assert(read_text("calls") == "update JobId=7 StartTime=now\n", "%s", read_text("calls").c_str());
    write_text("calls", "");
    write_text("job", "COMPLETING|1000||\nPENDING|N/A||\n");
    helped();
    cr_assert(read_text("calls") == "update JobId=7 StartTime=now\n", "%s", read_text("calls").c_str());
}

Test(helper, a_start_that_slurm_puts_off_again_is_set_again) {
    const node_socket good(false);
    write_text("nodes", line_of(good.facts("n1")) + line_of(good.facts("n2")));
    write_text("job", "PENDING|N/A||\n");
    write_text("reasons", "BeginTime\nBeginTime\nResources\nBeginTime\n");
    const names log = helped();
    const std::string once = "update JobId=7 StartTime=now\n";
    cr_assert(read_text("calls") == once + once + once + once, "%s", read_text("calls").c_str());
    cr_assert_eq(log.size(), 7, "three times: why, and what");
}

Test(helper, a_job_that_cannot_run_without_the_excluded_nodes_gets_them_back_and_is_not_held) {
    const node_socket good(false);
    write_text("nodes", line_of(good.facts("n1")) + line_of(good.facts("n2"), "DOWN"));
    write_text("job", "PENDING|N/A|n9|\n");
    write_text("reasons", "None\nBadConstraints\nResources\n");
    helped();
    cr_assert(read_text("calls") ==
                  "update JobId=7 ExcNodeList=n9,n2\nupdate JobId=7 StartTime=now\n"
                  "update JobId=7 ExcNodeList=n9\nrelease 7\n",
              "%s", read_text("calls").c_str());
}

Test(helper, a_job_that_slurm_holds_after_a_failed_launch_is_released) {
    const node_socket good(false);
    write_text("nodes", line_of(good.facts("n1")) + line_of(good.facts("n2")));
    write_text("job", "PENDING|N/A||\n");
    write_text("reasons", "launch_failed_requeued_held\n");
    helped();
    cr_assert(read_text("calls") == "update JobId=7 StartTime=now\nrelease 7\n", "%s", read_text("calls").c_str());
    write_text("calls", "");
    for (const char* held : {"JobHeldUser", "JobHeldAdmin"}) {
        write_text("reasons", std::string(held) + "\n");
        helped();
        cr_assert(read_text("calls").find("release") == std::string::npos, "whoever held it releases it");
    }
}

// With requeue_delay or --requeue=expedite, which newer Slurms have.
Test(helper, a_job_that_slurm_starts_without_delay_needs_no_start_time) {
    const node_socket good(false);
    write_text("nodes", line_of(good.facts("n1")) + line_of(good.facts("n2")));
    write_text("job", "PENDING|N/A||\n");
    write_text("runs", "n1,n2\n");
    helped();
    cr_assert(read_text("calls").empty(), "%s", read_text("calls").c_str());
}

// Extra is a field of newer Slurms: what agents say stands there where the comment is the user's.
Test(helper, reads_what_agents_say_in_extra_where_the_comment_is_the_users) {
    const node_socket good(false);
    write_text("nodes", line_of(good.facts("n1")) + line_of(good.facts("n2")));
    write_text("shown", "JobId=7 JobName=x Comment=run 12 Extra=varde: n2,n9 silent, requeued\n");
    write_text("job", completing("||run 12, ask Ada") + "PENDING|N/A||run 12, ask Ada\n");
    helped();
    cr_assert(read_text("calls") == "update JobId=7 ExcNodeList=n2\nupdate JobId=7 StartTime=now\n", "%s",
              read_text("calls").c_str());
}

Test(helper, a_node_of_the_new_start_that_died_idle_is_set_down_too) {
    const node_socket good(false);
    const node_socket dead(true);
    write_text("nodes", line_of(good.facts("n1")) + line_of(good.facts("n2")) + line_of(dead.facts("n3")));
    write_text("job", "PENDING|N/A||\n");
    write_text("runs", "n1,n3\n");
    helped();
    cr_assert(
        read_text("calls") == "update NodeName=n3 State=DOWN Reason=varde: slurmd does not answer, job 7 requeued\n",
        "%s", read_text("calls").c_str());
}

Test(helper, the_administrator_is_told_where_ranks_fail_first_and_keeps_a_comment_of_their_own) {
    const node_socket good(false);
    for (const char* comment : {"", " Comment=rack 7", " Comment=varde: old news"}) {
        write_text("calls", "");
        write_text("nodes", line_of(good.facts("n1")) + "NodeName=n2 NodeAddr=127.0.0.1 State=ALLOCATED Port=" +
                                std::to_string(good.facts("n2").port) + comment + "\n");
        write_text("job", completing("||varde: n2 failing, exit code 1, requeued") + "PENDING|N/A||\n");
        helped();
        const bool ours = std::string(comment).find("rack") == std::string::npos;
        cr_assert(read_text("calls") ==
                      std::string(ours ? "update NodeName=n2 Comment=varde: ranks fail first here, says job 7\n" : "") +
                          "update JobId=7 ExcNodeList=n2\nupdate JobId=7 StartTime=now\n",
                  "%s", read_text("calls").c_str());
    }
}

// Else a node that had the job before gives it no Prolog.
Test(helper, does_not_start_the_job_before_its_nodes_have_forgotten_it) {
    const node_socket good(false);
    write_text("nodes", line_of(good.facts("n1")) + line_of(good.facts("n2")));
    write_text("job", "PENDING|N/A||\n");
    const uint64_t begun = mono_ns();
    helped("n1,n2", 10'000, 300);
    cr_assert(mono_ns() - begun >= 300 * ns_per_ms);
    cr_assert(read_text("calls") == "update JobId=7 StartTime=now\n", "%s", read_text("calls").c_str());
}

Test(helper, a_node_that_is_down_already_is_only_excluded) {
    const node_socket good(false);
    const node_socket dead(true);
    write_text("nodes", line_of(good.facts("n1")) + line_of(dead.facts("n2"), "DOWN+NOT_RESPONDING"));
    write_text("job", "PENDING|N/A|n8,n[3-4]|\n");
    helped();
    cr_assert(read_text("calls") == "update JobId=7 ExcNodeList=n8,n[3-4],n2\nupdate JobId=7 StartTime=now\n", "%s",
              read_text("calls").c_str());
}

Test(helper, nodes_of_the_comment_are_excluded_but_not_set_down) {
    const node_socket good(false);
    write_text("nodes", line_of(good.facts("n1")) + line_of(good.facts("n2")));
    write_text("job", completing("||varde: n2,n9 silent, requeued") + "PENDING|N/A||\n");
    helped();
    cr_assert(read_text("calls") == "update JobId=7 ExcNodeList=n2\nupdate JobId=7 StartTime=now\n", "%s",
              read_text("calls").c_str());
}

Test(helper, where_nobody_answers_no_node_is_to_blame) {
    const node_socket dead(true);
    write_text("nodes", line_of(dead.facts("n1")) + line_of(dead.facts("n2")) + line_of(dead.facts("n3")));
    write_text("job", completing() + "PENDING|N/A||\n");
    const names log = helped();
    cr_assert(read_text("calls") == "update JobId=7 StartTime=now\n", "%s", read_text("calls").c_str());
    cr_assert(log.front().find("cut off") != std::string::npos);
}

Test(helper, another_node_of_the_cluster_is_witness_enough) {
    const node_socket dead(true);
    const node_socket other(false);
    write_text("nodes", line_of(dead.facts("n1")) + line_of(other.facts("n9")));
    write_text("job", completing() + "PENDING|N/A||\n");
    helped("n1");
    cr_assert(read_text("calls").find("NodeName=n1 State=DOWN") != std::string::npos, "%s", read_text("calls").c_str());
}

// Where a node cannot be looked at, that is no proof that we are not cut off, and no proof that it is dead.
Test(helper, a_node_whose_name_is_unknown_is_neither_dead_nor_a_witness) {
    const node_socket dead(true);
    write_text("nodes", line_of(dead.facts("n1")) +
                            "NodeName=n2 NodeAddr=no.such.host.invalid State=ALLOCATED Port=1\n" +
                            "NodeName=n3 NodeAddr=no.such.host.invalid State=IDLE Port=1\n");
    write_text("job", completing() + "PENDING|N/A||\n");
    const names log = helped();
    cr_assert(read_text("calls") == "update JobId=7 StartTime=now\n", "%s", read_text("calls").c_str());
    cr_assert(log.size() == 3 && log[0].find("couldn't look at n2: ") == 0 &&
              log[1].find("cut off") != std::string::npos);
}

Test(helper, a_node_that_slurm_powers_or_reboots_is_left_to_slurm) {
    const node_socket good(false);
    const node_socket away(true);
    for (const char* state : {"ALLOCATED+POWERING_UP", "IDLE+COMPLETING+POWERED_DOWN", "MIXED+REBOOT_ISSUED"}) {
        write_text("nodes", line_of(good.facts("n1")) + line_of(away.facts("n2"), state));
        write_text("job", completing() + "PENDING|N/A||\n");
        helped();
        cr_assert(read_text("calls") == "update JobId=7 StartTime=now\n", "%s: %s", state, read_text("calls").c_str());
        std::filesystem::remove(folder + "/calls");
    }
}

// What is known of a helper that is killed at its deadline is what it has told before.
Test(helper, tells_what_it_does_at_once) {
    const node_socket good(false);
    const node_socket dead(true);
    write_text("nodes", line_of(good.facts("n1")) + line_of(dead.facts("n2")));
    write_text("job", completing());
    helper_limits limits;
    limits.probe = quick;
    limits.total_ms = 600'000;
    limits.poll_ms = 20;
    std::string told;
    struct done {};
    try {
        help({"7", "n1,n2"}, slurm_tools(folder, {"PATH=/usr/bin:/bin"}), limits, [&told](const std::string& line) {
            told = line;
            throw done();
        });
    } catch (const done&) {}
    cr_assert(told == "set n2 DOWN: slurmd does not answer", "%s", told.c_str());
}

Test(helper, a_job_that_is_cancelled_meanwhile_is_left) {
    const node_socket good(false);
    write_text("nodes", line_of(good.facts("n1")) + line_of(good.facts("n2")));
    write_text("job", completing() + completing() + "CANCELLED|1000||\n");
    cr_assert(helped().empty());
    cr_assert(read_text("calls").empty());
}

Test(helper, refusals_are_told) {
    const node_socket good(false);
    write_text("nodes", line_of(good.facts("n1")) + line_of(good.facts("n2")));
    write_text("refuse", "");
    write_text("job", "PENDING|N/A||\n");
    const names log = helped();
    cr_assert(log.size() == 1 && log[0].find("couldn't set StartTime=now") != std::string::npos &&
              log[0].find("Access denied") != std::string::npos);
}

Test(helper, gives_up_at_its_deadline) {
    const node_socket good(false);
    write_text("nodes", line_of(good.facts("n1")) + line_of(good.facts("n2")));
    write_text("job", completing());
    const uint64_t start = mono_ns();
    const names log = helped("n1,n2", 1000);
    cr_assert_geq((mono_ns() - start) / ns_per_ms, 900);
    cr_assert(!log.empty() && log.back().find("gave up") != std::string::npos);
}

Test(helper, a_slurm_that_does_not_answer_is_asked_again) {
    const node_socket good(false);
    write_text("nodes", line_of(good.facts("n1")) + line_of(good.facts("n2")));
    write_text("job", "garbage\nslurm_load_jobs error\nPENDING|N/A||\n");
    helped();
    cr_assert(read_text("calls") == "update JobId=7 StartTime=now\n");
    write_text("squeue", "#!/bin/bash\nexit 1\n", 0755);
    const names log = helped();
    cr_assert(log.size() == 1 && log[0].find("couldn't ask for the job") != std::string::npos);
    write_text("squeue", "#!/bin/bash\necho 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1\n", 0755);
    cr_assert(helped().empty(), "Slurm has forgotten the job");
}

Test(helper, hostile_node_lists_reach_no_program) {
    write_text("job", completing());
    for (const char* bad : {"", "-h", "a;touch x", "$(touch x)", "a b"}) {
        const names log = helped(bad, 1000);
        cr_assert(log.size() == 1 && log[0].find("no node list") != std::string::npos, "%s", bad);
    }
}
