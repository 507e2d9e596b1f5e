// The agent follows the prolog's plan: which slab a rank gets, also after its worker or a start has ended, and on which
// CPUs the worker runs.
#include "agent/plan.h"
#include "agent_process_support.h"

#include <set>
#include <sys/stat.h>

using namespace agent_test;

namespace {

constexpr uint64_t arena_bytes = 4194304;  // as agent_process starts it

// Two NUMA nodes, of which the machine need have none: memory that cannot be placed is placed anywhere.
std::string plan_text(const std::string& writers) {
    const std::string half = std::to_string(arena_bytes / 2);
    return "varde-plan 1\narena " + std::to_string(arena_bytes) + "\nnode 0 holds " + half +
           " cpus 0 because of the test\nnode 7 holds " + half + " cpus 1 because of the test\nwriters " + writers +
           " because of the test\nend\n";
}

// Ranks 0 and 2 want the second NUMA node, 1 and 3 the first.
std::deque<fake_rank> start(const agent_process& agent, const std::string& launch, uint64_t expected_step) {
    std::deque<fake_rank> ranks;
    for (uint32_t i = 0; i < 4; i++) {
        ranks.emplace_back(agent, i, 4, launch).want(i % 2 == 0 ? 7 : 0);
        ranks.back().hello();
    }
    for (auto& rank : ranks) rank.ask_restore();
    std::deque<std::thread> threads;  // nobody is let go before all have loaded
    for (auto& rank : ranks)
        threads.emplace_back([&rank, expected_step] { cr_assert_eq(rank.restored(expected_step), expected_step); });
    for (auto& one : threads) one.join();
    return ranks;
}

void save(std::deque<fake_rank>& ranks, uint64_t step) {
    for (auto& rank : ranks) rank.save(step);
    agent_process::wait_for([&] { return ranks[0].node()->complete_step.load() == step; }, "the complete generation");
}

std::vector<uint64_t> offsets(const std::deque<fake_rank>& ranks) {
    std::vector<uint64_t> found;
    for (const auto& rank : ranks) found.push_back(rank.slab_offset);
    return found;
}

}  // namespace

Test(agent_plan, slabs_are_near_their_ranks_and_stay_theirs, .timeout = 60) {
    const agent_process agent{agent_process::by_prolog{plan_text("0")}};
    std::vector<uint64_t> first;
    {
        auto ranks = start(agent, "test.1", 0);
        first = offsets(ranks);
        for (uint32_t i = 0; i < 4; i++)
            cr_assert_eq(first[i] >= arena_bytes / 2, i % 2 == 0, "rank %u at %lu", i, first[i]);
        const std::set<uint64_t> distinct(first.begin(), first.end());
        cr_assert_eq(distinct.size(), 4);
        save(ranks, 100);
        const pid_t before = agent.worker();
        cr_assert_eq(::kill(before, SIGKILL), 0);
        agent_process::wait_for([&] { return agent.worker() != 0 && agent.worker() != before; }, "the next worker");
        for (auto& rank : ranks) rank.hello(true);
        cr_assert(offsets(ranks) == first, "a worker that takes over knows the places");
        save(ranks, 200);
        for (auto& rank : ranks) rank.close();
    }
    auto ranks = start(agent, "test.2", 200);
    cr_assert(offsets(ranks) == first, "what is in memory stays where it is");
}

Test(agent_plan, the_worker_runs_on_the_cpus_of_the_plan) {
    cpu_set_t allowed;
    cr_assert_eq(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
    size_t cpu = CPU_SETSIZE - 1;
    while (!CPU_ISSET(cpu, &allowed)) cpu--;
    const agent_process agent{agent_process::by_prolog{plan_text(std::to_string(cpu))}};
    auto ranks = start(agent, "test.1", 0);
    size_t threads = 0;
    for (const auto& thread :
         std::filesystem::directory_iterator("/proc/" + std::to_string(agent.worker()) + "/task")) {
        cpu_set_t mine;
        if (::sched_getaffinity(std::atoi(thread.path().filename().c_str()), sizeof mine, &mine) != 0) continue;
        cr_assert(CPU_COUNT(&mine) == 1 && CPU_ISSET(cpu, &mine));
        threads++;
    }
    cr_assert_geq(threads, 3);
}

// CPUs that the agent may not use, and a file that is no plan: checkpoints are made all the same.
Test(agent_plan, a_plan_that_cannot_be_followed_is_no_harm) {
    for (const std::string& plan : {plan_text("8000"), std::string("varde-plan 1\n"), plan_text("0") + "more\n"}) {
        const agent_process agent{agent_process::by_prolog{plan}};
        auto ranks = start(agent, "test.1", 0);
        save(ranks, 100);
    }
}

Test(agent_plan, is_read_only_from_a_file_that_others_cannot_write) {
    const temporary_directory at;
    const std::string path = at.path() + "/plan";
    cr_assert(read_plan(path).error().what == code::not_found);
    std::ofstream(path) << plan_text("0");
    const auto plan = need(read_plan(path));
    cr_assert(plan.arena_bytes == arena_bytes && plan.shares.size() == 2 && plan.shares[1].node == 7);
    cr_assert_eq(::chmod(path.c_str(), 0666), 0);
    cr_assert(read_plan(path).error().what == code::invalid);
    cr_assert_eq(::chmod(path.c_str(), 0644), 0);
    std::ofstream(path) << "varde-plan 2\n";
    const auto damaged = read_plan(path);
    cr_assert(damaged.error().what == code::damaged && damaged.error().context.find(path) != std::string::npos);
}

Test(agent_plan, a_machine_with_one_numa_node_needs_none) {
    const temporary_directory at;
    std::filesystem::create_directories(at.path() + "/sys/devices/system/node");
    cr_assert(need(plan_here(1 << 20, at.path())).shares.empty(), "a kernel that does not tell");
    std::ofstream(at.path() + "/sys/devices/system/node/online") << "0\n";
    cr_assert(need(plan_here(1 << 20, at.path())).shares.empty());
    std::ofstream(at.path() + "/sys/devices/system/node/online") << "0-1\n";
    const auto plan = need(plan_here(1 << 20, at.path()));  // of the machine that is there
    cr_assert(!plan.shares.empty() && plan.arena_bytes == 1 << 20 && plan.writers.none());
}
