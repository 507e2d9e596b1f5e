// Which NUMA node the arena's bytes are on, and which slab a rank gets.
#include "agent/memory.h"
#include "agent/placement.h"

#include "agent_support.h"

#include <linux/mempolicy.h>
#include <set>
#include <sys/syscall.h>

using namespace agent_test;

namespace {

using slabs = std::vector<std::optional<uint32_t>>;

std::vector<uint64_t> sizes(const std::vector<arena_part>& parts) {
    std::vector<uint64_t> found;
    for (const auto& part : parts) found.push_back(part.size_bytes);
    return found;
}

}  // namespace

Test(agent_placement, the_arena_is_cut_in_proportion_at_pages) {
    const std::vector<arena_part> even{{0, 4}, {1, 4}};
    cr_assert(sizes(cut_arena(even, 1 << 20, 4096)) == (std::vector<uint64_t>{512 << 10, 512 << 10}));
    cr_assert(sizes(cut_arena(even, 3 << 12, 4096)) == (std::vector<uint64_t>{4096, 8192}), "the last has the rest");
    const std::vector<arena_part> uneven{{0, 1}, {3, 0}, {2, 6}, {5, 1}};
    const auto parts = cut_arena(uneven, uint64_t{1} << 40, 2 << 20);
    cr_assert_eq(parts.size(), 4);
    cr_assert(parts[1].size_bytes == 0 && parts[1].numa_node == 3 && parts[2].numa_node == 2);
    uint64_t sum = 0;
    for (const auto& part : parts) sum += part.size_bytes;
    cr_assert_eq(sum, uint64_t{1} << 40);
    cr_assert_eq(numa_node_at(parts, 0), 0);
    cr_assert_eq(numa_node_at(parts, parts[0].size_bytes), 2);
    cr_assert_eq(numa_node_at(parts, sum - 1), 5);
    cr_assert_eq(numa_node_at(parts, sum), any_numa_node);
    cr_assert(cut_arena({}, 1 << 20, 4096).empty());
    const std::vector<arena_part> nothing{{0, 0}, {1, 0}};
    cr_assert(sizes(cut_arena(nothing, 1 << 20, 4096)) == (std::vector<uint64_t>{0, 1 << 20}));
}

Test(agent_placement, a_rank_gets_a_slab_near_it) {
    const std::vector<int> nodes{0, 0, 1, 1};
    slabs taken(4);
    cr_assert_eq(choose_slab(nodes, taken, 2, any_numa_node), 2, "its own number");
    cr_assert_eq(choose_slab(nodes, taken, 0, 1), 2);
    taken[0] = 2;
    cr_assert_eq(choose_slab(nodes, taken, 2, 1), 3, "the other one of that node");
    taken[2] = 3;
    cr_assert_eq(choose_slab(nodes, taken, 1, 1), 1, "none is left there");
    taken[1] = 1;
    cr_assert_eq(choose_slab(nodes, taken, 3, any_numa_node), 0);
    cr_assert_eq(choose_slab(nodes, taken, 0, 1), 2, "it keeps what it had");
    cr_assert_eq(choose_slab(nodes, taken, 0, 0), 0, "unless it has moved");
    cr_assert_eq(choose_slab(nodes, taken, 0, 7), 2, "a node without a slab");
}

// Whatever ranks want and in whatever order they come, each has one of its own.
Test(agent_placement, no_two_ranks_get_the_same_slab) {
    uint32_t seed = 1;
    const auto random = [&seed](uint32_t below) { return (seed = seed * 1664525 + 1013904223) / 65536 % below; };
    for (int round = 0; round < 2000; round++) {
        const uint32_t count = 1 + random(9);
        std::vector<int> nodes(count);
        for (int& node : nodes) node = static_cast<int>(random(4)) - 1;
        slabs taken(count);
        for (uint32_t step = 0; step < 3 * count; step++) {  // several times, as after several starts
            const uint32_t rank = random(count);
            taken[rank] = choose_slab(nodes, taken, rank, static_cast<int>(random(4)) - 1);
        }
        for (uint32_t rank = 0; rank < count; rank++) taken[rank] = choose_slab(nodes, taken, rank, any_numa_node);
        std::set<uint32_t> distinct;
        for (const auto& slab : taken) distinct.insert(*slab);
        cr_assert(distinct.size() == count && *distinct.rbegin() < count);
    }
}

// As read back from the kernel, of every part of the arena.
Test(agent_placement, the_kernel_has_the_pages_where_they_are_wanted) {
    const auto made = need(make_memory({.size_bytes = 8 << 20, .shares = {{0, 1}, {any_numa_node, 1}}}));
    cr_assert(made.refusal.empty(), "%s", made.refusal.c_str());
    need(reserve_memory(made.memory.arena));
    const auto ask = [&](size_t offset, unsigned long flags) {
        int answer = -1;
        cr_assert_eq(::syscall(SYS_get_mempolicy, &answer, nullptr, 0UL, made.memory.arena.data() + offset, flags), 0);
        return answer;
    };
    cr_assert_eq(ask(0, MPOL_F_ADDR), MPOL_PREFERRED);
    cr_assert_eq(ask((4 << 20) - 1, MPOL_F_ADDR), MPOL_PREFERRED);
    cr_assert_eq(ask(4 << 20, MPOL_F_ADDR), MPOL_DEFAULT);
    for (size_t offset = 0; offset < 4 << 20; offset += 4096) cr_assert_eq(ask(offset, MPOL_F_NODE | MPOL_F_ADDR), 0);
}

Test(agent_placement, a_numa_node_that_is_none_is_said_and_costs_nothing) {
    for (const int node : {1023, 1024, 1 << 20}) {
        const auto made = need(make_memory({.size_bytes = 1 << 20, .shares = {{node, 1}}}));
        cr_assert(made.refusal.find("NUMA node " + std::to_string(node)) != std::string::npos, "%s",
                  made.refusal.c_str());
        need(reserve_memory(made.memory.arena));
    }
}
