// Rank, node and start from the environments that launchers leave.
#include "client/launcher.h"

#include <criterion/criterion.h>
#include <map>
#include <string>

using namespace varde;
using namespace varde::client;

namespace {

std::map<std::string, std::string>& table() {
    static std::map<std::string, std::string> values;
    return values;
}

const char* get(const char* name) {
    const auto found = table().find(name);
    return found == table().end() ? nullptr : found->second.c_str();
}

const process_facts facts{"host1", {100, 5}, {50, 3}};

result<place> find(std::map<std::string, std::string> values, const place_numbers& given = {},
                   const char* launch = "") {
    table() = std::move(values);
    return find_place(given, launch, get, facts);
}

void is(const result<place>& found, const place& expected) {
    cr_assert(found.has_value(), "%s", found ? "" : found.error().context.c_str());
    cr_assert(found->rank == expected.rank && found->world == expected.world, "rank %u of %u", found->rank,
              found->world);
    cr_assert(found->local_rank == expected.local_rank && found->local_count == expected.local_count,
              "local rank %u of %u", found->local_rank, found->local_count);
    cr_assert(found->node_index == expected.node_index && found->node_count == expected.node_count, "node %u of %u",
              found->node_index, found->node_count);
    cr_assert(found->launch == expected.launch, "'%s'", found->launch.c_str());
}

void refused(const result<place>& found, const char* part) {
    cr_assert(!found.has_value());
    cr_assert(found.error().what == code::invalid);
    cr_assert(found.error().context.find(part) != std::string::npos, "%s", found.error().context.c_str());
}

const std::map<std::string, std::string> slurm{
    {"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"},        {"SLURM_PROCID", "4"},
    {"SLURM_NTASKS", "5"}, {"SLURM_STEP_NUM_TASKS", "5"}, {"SLURM_LOCALID", "0"},
    {"SLURM_NODEID", "2"}, {"SLURM_STEP_NUM_NODES", "3"}, {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
};

std::map<std::string, std::string> with(std::map<std::string, std::string> base,
                                        const std::map<std::string, std::string>& more) {
    for (const auto& [name, value] : more) base[name] = value;
    return base;
}

const std::map<std::string, std::string> torchrun{
    {"RANK", "3"},
    {"WORLD_SIZE", "4"},
    {"LOCAL_RANK", "1"},
    {"LOCAL_WORLD_SIZE", "2"},
    {"GROUP_RANK", "1"},
    {"GROUP_WORLD_SIZE", "2"},
    {"TORCHELASTIC_RUN_ID", "abc"},
    {"TORCHELASTIC_RESTART_COUNT", "2"},
    {"MASTER_ADDR", "n1"},
    {"MASTER_PORT", "29400"},
};

}  // namespace

Test(client_launcher, slurm_step_gives_all_numbers) {
    is(find(slurm), {4, 5, 0, 1, 2, 3, "slurm 7.0.0"});
    is(find(with(slurm, {{"SLURM_RESTART_COUNT", "2"}, {"SLURM_STEP_ID", "5"}})), {4, 5, 0, 1, 2, 3, "slurm 7.2.5"});
}

Test(client_launcher, the_step_counts_and_not_the_job) {
    is(find(with(slurm, {{"SLURM_NTASKS", "99"}, {"SLURM_NNODES", "9"}})), {4, 5, 0, 1, 2, 3, "slurm 7.0.0"});
}

Test(client_launcher, a_process_of_the_batch_script_is_alone_whatever_the_job_has) {
    is(find({{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_NNODES", "2"}}),
       {0, 1, 0, 1, 0, 1, "slurm 7.0.batch host1 100 5"});
}

Test(client_launcher, torchrun_alone) { is(find(torchrun), {3, 4, 1, 2, 1, 2, "torchrun abc.2 n1:29400"}); }

Test(client_launcher, torchrun_wins_over_the_srun_that_started_it) {
    is(find(with(slurm, torchrun)), {3, 4, 1, 2, 1, 2, "slurm 7.0.0 torchrun abc.2 n1:29400"});
}

Test(client_launcher, rank_set_by_hand_in_a_slurm_step_does_not_hide_slurm) {
    is(find(with(slurm, {{"RANK", "4"}, {"WORLD_SIZE", "5"}})), {4, 5, 0, 1, 2, 3, "slurm 7.0.0"});
}

Test(client_launcher, open_mpi_nodes_follow_from_the_ranks) {
    is(find({{"OMPI_COMM_WORLD_RANK", "5"},
             {"OMPI_COMM_WORLD_SIZE", "8"},
             {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
             {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
             {"PMIX_NAMESPACE", "x1"}}),
       {5, 8, 1, 4, 1, 2, "mpi x1"});
    // Ranks dealt out node by node: the node's number cannot be told.
    refused(find({{"OMPI_COMM_WORLD_RANK", "5"},
                  {"OMPI_COMM_WORLD_SIZE", "8"},
                  {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                  {"PMIX_NAMESPACE", "x1"}}),
            "node");
}

Test(client_launcher, mpich_on_one_node_is_named_by_its_parent) {
    is(find({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}}),
       {1, 2, 1, 2, 0, 1, "mpi host1 50 3"});
}

Test(client_launcher, mpich_on_several_nodes_needs_a_name_for_the_start) {
    const std::map<std::string, std::string> values{
        {"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
    refused(find(values), "VARDE_LAUNCH");
    is(find(values, {}, "mine"), {3, 4, 1, 2, 1, 2, "mine"});
}

Test(client_launcher, slurms_own_pmi_is_slurm) {
    is(find(with(slurm, {{"PMI_RANK", "4"}, {"PMI_SIZE", "5"}})), {4, 5, 0, 1, 2, 3, "slurm 7.0.0"});
}

Test(client_launcher, without_a_launcher_there_is_one_rank) { is(find({}), {0, 1, 0, 1, 0, 1, "local host1 100 5"}); }

Test(client_launcher, given_numbers_win) {
    is(find({}, {.rank = 1, .world = 3}), {1, 3, 1, 3, 0, 1, "local host1 50 3"});
    is(find(slurm, {.rank = 0, .world = 5, .local_rank = 0, .local_count = 2, .node_index = 0, .node_count = 3}),
       {0, 5, 0, 2, 0, 3, "slurm 7.0.0"});
}

Test(client_launcher, contradictions_are_named) {
    refused(find(with(slurm, {{"SLURM_PROCID", "5"}})), "no rank 5 of 5");
    refused(find(with(slurm, {{"SLURM_LOCALID", "1"}})), "no local rank 1 of 1");
    refused(find(with(slurm, {{"SLURM_NODEID", "3"}})), "node 3");
    refused(find(with(slurm, {{"SLURM_STEP_NUM_NODES", "2"}})), "no node 2 of 2");
    refused(find(with(slurm, {{"SLURM_PROCID", "four"}})), "SLURM_PROCID='four'");
    refused(find(with(torchrun, {{"WORLD_SIZE", "3"}})), "no rank 3 of 3");
    refused(find({}, {.rank = 0}), "not known");
    refused(find({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"GROUP_RANK", "0"}, {"GROUP_WORLD_SIZE", "2"}}),
            "rank within the node");
    refused(find({}, {.rank = 300, .world = 512}), "256");
}

Test(client_launcher, the_name_of_a_start_has_a_limit) {
    refused(find(with(torchrun, {{"TORCHELASTIC_RUN_ID", std::string(600, 'x')}})), "VARDE_LAUNCH");
}

Test(client_launcher, reads_slurms_list_of_tasks_per_node) {
    const char* list = "2(x2),1,256(x3)";
    const uint32_t expected[] = {2, 2, 1, 256, 256, 256};
    for (uint32_t node = 0; node < 6; node++) cr_assert(tasks_of_node(list, node).value() == expected[node]);
    cr_assert(!tasks_of_node(list, 6));
    for (const char* wrong : {"", ",", "x", "2(x", "2(x)", "2(x0)", "0", "2(x2", "2(y2)", "-1", "2(x2)3", "999999"})
        cr_assert(!tasks_of_node(wrong, 0), "'%s'", wrong);
}

Test(client_launcher, facts_tell_this_process_from_another) {
    const auto now = facts_of_this_process();
    cr_assert(!now.host.empty() && now.self.id > 1 && now.parent.id > 0 && now.self.start_ticks > 0);
    cr_assert(facts_of_this_process().self.start_ticks == now.self.start_ticks);
}
