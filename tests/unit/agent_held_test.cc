// The load from the node's memory: what the slabs still hold is not read; what they do not hold any more is.
#include "agent_load_support.h"

using namespace agent_test;

namespace {

// Breaks every chunk of a pack's data in the file, not its header and seal.
void break_data(const store::run_directory& run, uint32_t node, uint32_t nodes) {
    const std::string path = pack_path(run, node, nodes);
    const std::string text = read_file(path);
    const auto file = std::as_bytes(std::span(text));
    const auto image =
        need(pack::parse_header(file.first(need(pack::header_bytes(file.first(4096), file.size()))), file.size()));
    for (const auto& placed : image.ranges) {
        for (uint64_t at = 0; at < placed.what.size_bytes; at += chunk_bytes) flip_byte(path, placed.file_offset + at);
    }
}

constexpr uint64_t enough_places = 64;  // more than a rank has chunks

}  // namespace

Test(agent_held, what_the_memory_holds_is_not_read) {
    saved s(2, 2);
    break_data(s.run, 1, 2);
    for (const uint64_t first : {0, 5, 61, 640}) {  // also around the end of the ring
        node_that_loads n(s.run, 1, 2, 2, 2, enough_places);
        n.hold(first);
        need(n.carry_out());
        n.check_memory();
        cr_assert_gt(n.memory_bytes, 0);
        cr_assert_eq(n.storage_bytes, 0);
    }
    node_that_loads without(s.run, 1, 2, 2, 2, enough_places);
    store_test::refused(without.carry_out(), code::damaged);
}

// A spare has taken a dead node's place, and Slurm has given this node another number; its ranks are the same.
Test(agent_held, a_node_with_a_new_number_still_holds_what_it_has_saved) {
    saved s(3, 2);
    node_that_loads n(s.run, 2, 3, 2, 3, enough_places);
    n.hold(0);
    n.job_.node_index = 1;
    break_data(s.run, 1, 3);
    break_data(s.run, 2, 3);
    need(n.carry_out());
    n.check_memory();
    cr_assert_eq(n.storage_bytes, 0);
}

// The spare itself: its number says nothing of where its ranks' shards lie, and it holds nothing.
Test(agent_held, a_spare_reads_the_dead_nodes_shards) {
    saved s(3, 2);
    node_that_loads n(s.run, 1, 3, 2, 3, enough_places);
    n.job_.node_index = 2;
    need(n.carry_out());
    n.check_memory();
    cr_assert_eq(n.memory_bytes, 0);
    cr_assert_gt(n.storage_bytes, 0);
}

// A start with as many nodes whose ranks were dealt out in another way: what is held is another rank's.
Test(agent_held, what_is_held_of_other_ranks_is_not_taken) {
    saved s(3, 2);
    node_that_loads n(s.run, 1, 3, 2, 3, enough_places);
    n.hold(0);
    for (auto& range : n.job_.held.ranges) range.rank += 2;  // node 2's
    n.job_.held.node_index = 2;
    need(n.carry_out());
    n.check_memory();
    cr_assert_eq(n.memory_bytes, 0);
}

Test(agent_held, memory_that_was_overwritten_is_read_from_storage) {
    saved s(1, 2);
    const uint64_t chunks = pack::chunk_count(range_of(0, 2).size_bytes, chunk_bytes);
    cr_assert_gt(chunks, 3);
    for (const uint64_t broken : {uint64_t{0}, uint64_t{2}, chunks - 1}) {
        node_that_loads n(s.run, 0, 1, 2, 1, enough_places);
        n.hold(60);
        n.job_.targets[1].slab[(60 + broken) % enough_places * chunk_bytes + 7] ^= std::byte{1};
        need(n.carry_out());
        n.check_memory();
    }
}

Test(agent_held, memory_of_something_else_is_not_looked_at) {
    saved s(1, 2);
    const auto loads_all = [&](node_that_loads& n) {
        std::memset(n.job_.targets[0].slab, 0x5a, n.job_.targets[0].slab_bytes);
        need(n.carry_out());
        n.check_memory();
    };
    for (int what = 0; what < 5; what++) {
        node_that_loads n(s.run, 0, 1, 2, 1, enough_places);
        n.hold(0);
        auto& held = n.job_.held;
        if (what == 0) held.id.step++;
        if (what == 1) held.chunk_bytes *= 2;
        if (what == 2) held.ranges[0].rank = held.ranges[1].rank = 9;
        if (what == 3) held.ranges[0].slab += chunk_bytes;
        if (what == 4) held.ranges[0].chunk_count = 1;
        loads_all(n);
    }
    node_that_loads other(s.run, 0, 1, 3, 1, enough_places);  // three ranks want what two have saved
    other.hold(0);
    loads_all(other);
}
