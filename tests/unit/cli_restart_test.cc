// `varde run`: where the next step goes, whether there is one, and what Slurm's programs print.
#include "cli/allocation.h"
#include "cli/restart_choice.h"
#include "cli/step_nodes.h"

#include "store_support.h"

#include <criterion/criterion.h>

using namespace varde;
using namespace varde::cli;
using store_test::need;
using store_test::refused;

namespace {

const std::vector<step_node> three{{"n1", {0, 1}}, {"n2", {2, 3}}, {"n3", {4, 5}}};

std::vector<std::string> placed(const std::vector<step_node>& last, const std::vector<std::string>& usable) {
    return place_options(need(replace_nodes(last, usable)), usable);
}

step_end failed_end() {
    step_end end;
    end.exit_status = 1;
    end.job_state = "RUNNING";
    end.progress = end.enough_nodes = true;
    end.budget = {1, 3};
    return end;
}
next_move move_of(const step_end& end) { return choose_move(end).what; }

}  // namespace

// ---- Nodes

Test(cli_restart, whoever_is_left_keeps_its_ranks) {
    const auto next = need(replace_nodes(three, std::vector<std::string>{"n1", "n3", "n4", "n5"}));
    cr_assert(next == std::vector<step_node>({{"n1", {0, 1}}, {"n4", {2, 3}}, {"n3", {4, 5}}}));
    refused(replace_nodes(three, std::vector<std::string>{"n1", "n3"}), code::no_space, "needs 3 nodes");
    cr_assert(need(replace_nodes(three, std::vector<std::string>{"n1", "n2", "n3", "n4"})) == three);
}

Test(cli_restart, srun_gets_a_host_per_rank_only_where_its_own_order_would_move_ranks) {
    const std::vector<std::string> same{"--overlap", "--nodelist=n1,n2,n3"};
    cr_assert(placed(three, {"n1", "n2", "n3", "n4"}) == same);
    const std::vector<std::string> last{"--overlap", "--nodelist=n1,n2,n4"};
    cr_assert(placed(three, {"n1", "n2", "n4"}) == last, "the spare stands where the dead node stood");
    const std::vector<std::string> moved{"--overlap", "--distribution=arbitrary", "--nodelist=n1,n1,n4,n4,n3,n3"};
    cr_assert(placed(three, {"n1", "n3", "n4"}) == moved);
    // Ranks that are dealt out in turn.
    const std::vector<step_node> cyclic{{"n1", {0, 2}}, {"n2", {1, 3}}};
    const std::vector<std::string> turns{"--overlap", "--distribution=arbitrary", "--nodelist=n3,n2,n3,n2"};
    cr_assert(placed(cyclic, {"n2", "n3"}) == turns);
    // Without a layout Slurm deals out the ranks.
    const std::vector<step_node> unknown{{"n1", {}}, {"n2", {}}};
    const std::vector<std::string> plain{"--overlap", "--nodelist=n2,n3"};
    cr_assert(placed(unknown, {"n2", "n3"}) == plain);
}

Test(cli_restart, options_that_name_nodes_are_found_among_sruns_own_only) {
    const auto found = [](std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), "srun");
        return find_node_option(arguments);
    };
    cr_assert_eq(found({"-N3", "-w", "n1", "train"}), "-w");
    cr_assert_eq(found({"-n", "6", "--nodelist=n1", "train"}), "--nodelist=n1");
    cr_assert_eq(found({"-l", "-r1", "train"}), "-r1");
    cr_assert_eq(found({"--ntasks", "6", "--exclude", "n1", "train"}), "--exclude");
    cr_assert_eq(found({"--kill-on-bad-exit", "--relative=1", "train"}), "--relative=1");
    cr_assert_eq(found({"-N3", "-n", "6", "--mpi=none", "python", "-m", "x", "-w", "5"}), "");
    cr_assert_eq(found({"-K", "train", "-x"}), "");
    cr_assert_eq(found({"--", "-w"}), "");
    cr_assert_eq(found({}), "");
}

// ---- What Slurm's programs print (22.05.8)

Test(cli_restart, the_step_of_an_srun_is_found_by_its_process) {
    const std::string shown =
        "StepId=7.batch UserId=61001 State=RUNNING NodeList=n1 Nodes=1 Name=batch SrunHost:Pid=(null):0 \n"
        "StepId=7.0 UserId=61001 State=RUNNING NodeList=n[1-3] Nodes=3 Name=train Dist=Block SrunHost:Pid=n1:273 \n"
        "StepId=7.TBD UserId=61001 State=PENDING NodeList=n[1-5] Nodes=5 Name=(null) SrunHost:Pid=n1:660 \n"
        "StepId=9_2.14 UserId=61001 State=RUNNING NodeList=n4 Nodes=1 Name=x SrunHost:Pid=n1:7 \n";
    cr_assert_eq(need(find_step(shown, "n1", 273)).number, 0);
    cr_assert_eq(need(find_step(shown, "n1", 273)).node_list, "n[1-3]");
    cr_assert_eq(need(find_step(shown, "n1", 7)).number, 14);
    refused(find_step(shown, "n1", 660), code::not_found, "no step");
    refused(find_step(shown, "n2", 273), code::not_found, "no step");
    refused(find_step("", "n1", 273), code::not_found, "no step");
}

Test(cli_restart, a_layout_is_read_and_comes_in_the_order_of_ranks) {
    const auto nodes =
        need(parse_layout("Job step layout:\n\t6 tasks, 3 nodes (n[1,3-4])\n\n"
                          "\tNode 0 (n1), 2 task(s): 0 1 \n\tNode 1 (n3), 2 task(s): 4 5 \n"
                          "\tNode 2 (n4), 2 task(s): 2 3 \n"));
    cr_assert(nodes == std::vector<step_node>({{"n1", {0, 1}}, {"n4", {2, 3}}, {"n3", {4, 5}}}));
    for (const char* wrong : {"", "Job step layout:\n", "\tNode 0 (n1), 2 task(s): 0 x \n",
                              "\tNode 0 n1, 2 task(s): 0\n", "\tNode 0 (n1), 0 task(s): \n"})
        refused(parse_layout(wrong), code::invalid, "sattach");
}

Test(cli_restart, nodes_that_slurm_takes_for_dead_are_not_used) {
    const auto nodes = parse_nodes(
        "NodeName=n1 Arch=x86_64 NodeAddr=10.0.0.1 NodeHostName=n1 Port=6820 State=ALLOCATED ThreadsPerCore=1 \n"
        "NodeName=n2 NodeAddr=n2 State=MIXED* ThreadsPerCore=1 \n"
        "NodeName=n3 NodeAddr=n3 State=DOWN+NOT_RESPONDING \nNodeName=n4 State=MIXED+DRAIN \n\n");
    cr_assert_eq(nodes.size(), 4);
    cr_assert(nodes[0].address == "10.0.0.1" && nodes[0].port == 6820 && is_up(nodes[0]));
    cr_assert(!is_up(nodes[1]) && !is_up(nodes[2]));
    cr_assert(nodes[3].address == "n4" && nodes[3].port == 0 && is_up(nodes[3]), "drained after this job");
}

// ---- Whether there is a next step

Test(cli_restart, success_a_signal_and_an_ending_job_are_no_failures) {
    auto end = failed_end();
    cr_assert(move_of(end) == next_move::restart);
    end.exit_status = 0;
    cr_assert(move_of(end) == next_move::finish);
    end = failed_end();
    end.stopped = true;
    cr_assert(move_of(end) == next_move::finish);
    for (const char* state : {"CANCELLED", "COMPLETING", "requeued", ""}) {
        end = failed_end();
        end.job_state = state;
        end.dead = {"n2"};
        cr_assert(move_of(end) == next_move::finish, "%s", state);
    }
}

Test(cli_restart, a_failure_needs_progress_a_dead_node_does_not) {
    auto end = failed_end();
    end.progress = false;
    cr_assert(move_of(end) == next_move::finish);
    cr_assert(choose_move(end).why.find("no new generation") != std::string::npos);
    end.dead = {"n2"};
    cr_assert(move_of(end) == next_move::restart);
    end.exit_status.reset();  // srun waits for the dead node
    cr_assert(move_of(end) == next_move::restart);
}

Test(cli_restart, an_exit_code_that_is_final_is_the_end_but_not_where_a_node_died) {
    step_end end = failed_end();
    end.final_exits.set(1);
    cr_assert(move_of(end) == next_move::finish);
    cr_assert(choose_move(end).why.find("is final") != std::string::npos);
    end.exit_status = 2;
    cr_assert(move_of(end) == next_move::restart);
    end.exit_status = 1;
    end.dead = {"n2"};
    cr_assert(move_of(end) == next_move::restart);
}

Test(cli_restart, the_budget_holds_for_both) {
    for (const bool dead : {false, true}) {
        auto end = failed_end();
        end.budget = {3, 3};
        if (dead) end.dead = {"n2"};
        cr_assert(move_of(end) == next_move::finish);
        cr_assert(choose_move(end).why.find("budget of 3") != std::string::npos);
    }
}

Test(cli_restart, too_few_nodes_are_a_matter_of_the_job) {
    auto end = failed_end();
    end.enough_nodes = false;
    cr_assert(move_of(end) == next_move::finish);
    end.dead = {"n2"};
    cr_assert(move_of(end) == next_move::requeue);
}
