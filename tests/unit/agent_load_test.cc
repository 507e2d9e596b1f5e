// The load: every registered byte gets what was saved, on any number of ranks, or everybody hears why not.
#include "agent_load_support.h"
#include "store_mounts_support.h"

using namespace agent_test;

Test(agent_load, gives_every_rank_what_it_saved) {
    saved s(2, 2);
    for (const bool use_ring : {true, false}) {
        for (const uint64_t places : {1, 2, 64}) {
            for (uint32_t node = 0; node < 2; node++) {
                node_that_loads n(s.run, node, 2, 2, 2, places, use_ring);
                need(n.carry_out());
                n.check_memory();
            }
        }
    }
}

Test(agent_load, gives_another_number_of_ranks_and_nodes_their_parts) {
    saved s(2, 2);
    for (const auto& [nodes, per_node] : {std::pair{1U, 1U}, {1U, 3U}, {3U, 1U}, {2U, 3U}, {5U, 2U}}) {
        for (uint32_t node = 0; node < nodes; node++) {
            node_that_loads n(s.run, node, nodes, per_node, 2, 3);
            need(n.carry_out());
            n.check_memory();
        }
    }
}

// With one place per slab, a rank that answers at once always answers in between.
Test(agent_load, never_waits_for_an_answer_that_has_come) {
    saved s(1, 2);
    for (int round = 0; round < 40; round++) {
        node_that_loads n(s.run, 0, 1, 2, 1, 1);
        n.job_.rank_wait_ms = 1500;
        need(n.carry_out());
    }
}

// A slab at an odd address: the kernel refuses each read that is O_DIRECT, though the header's went well.
Test(agent_load, reads_through_the_page_cache_where_a_read_refuses_o_direct) {
    saved s(1, 2);
    for (const bool use_ring : {true, false}) {
        node_that_loads n(s.run, 0, 1, 2, 1, 4, use_ring);
        for (auto& target : n.job_.targets) {
            target.slab += 1;
            target.slab_bytes -= chunk_bytes;
        }
        need(n.carry_out());
        n.check_memory();
    }
}

Test(agent_load, finds_a_damaged_chunk_and_names_it) {
    saved s(1, 1);
    const std::string path = pack_path(s.run, 0, 1);
    flip_byte(path, 4096 + 3 * chunk_bytes + 17);  // the header has one page
    node_that_loads n(s.run, 0, 1, 1, 1, 4);
    const auto done = n.carry_out();
    refused(done, code::damaged, path.c_str());
    cr_assert(done.error().context.find("chunk 3") != std::string::npos, "%s", done.error().context.c_str());
}

Test(agent_load, a_missing_or_cut_or_foreign_pack_is_damage) {
    saved s(2, 1);
    const std::string path = pack_path(s.run, 1, 2);
    std::filesystem::copy_file(pack_path(s.run, 0, 2), path, std::filesystem::copy_options::overwrite_existing);
    refused(node_that_loads(s.run, 1, 2, 1, 2, 4).carry_out(), code::damaged, "another generation or node");
    cr_assert_eq(::truncate(path.c_str(), 4096 * 3), 0);
    refused(node_that_loads(s.run, 1, 2, 1, 2, 4).carry_out(), code::damaged, path.c_str());
    cr_assert_eq(::truncate(path.c_str(), 100), 0);
    refused(node_that_loads(s.run, 1, 2, 1, 2, 4).carry_out(), code::damaged, path.c_str());
    cr_assert_eq(::unlink(path.c_str()), 0);
    refused(node_that_loads(s.run, 1, 2, 1, 2, 4).carry_out(), code::damaged, "is missing");
    need(node_that_loads(s.run, 0, 2, 1, 2, 4).carry_out());
}

Test(agent_load, reads_from_mounts_and_takes_one_that_is_away_for_no_damage) {
    const store_test::mounted m;
    store::run_directory run = m.open();
    write_generation(run, 4, 2);
    {
        node_that_loads node(run, 1, 2, 3, 4, 4);  // on other nodes, from all packs
        need(node.carry_out());
        node.check_memory();
    }
    m.take_away(1);
    node_that_loads another(run, 1, 2, 3, 4, 4);
    store_test::refused(another.carry_out(), code::io, "is not mounted on node");
    node_that_loads own(run, 0, 4, 2, 4, 4);  // its own pack is on the other mount
    need(own.carry_out());
    own.check_memory();
    std::filesystem::remove(store_test::mounted::true_path(run, {100, 1}, 0, 4));
    node_that_loads gone(run, 0, 4, 2, 4, 4);
    store_test::refused(gone.carry_out(), code::damaged, "is missing");
}

Test(agent_load, a_tensor_that_was_not_saved_is_a_mismatch) {
    saved s(1, 1);
    node_that_loads n(s.run, 0, 1, 1, 1, 4);
    n.job_.targets[0].wanted = need(pack::arrange(0, {{"new", pack::dtype::u8, {5}, {}, {}, 0, 0}}));
    refused(n.carry_out(), code::mismatch, "new");
}

Test(agent_load, a_slab_smaller_than_a_chunk_is_refused) {
    saved s(1, 1);
    node_that_loads n(s.run, 0, 1, 1, 1, 4);
    n.job_.targets[0].slab_bytes = chunk_bytes / 2;
    refused(n.carry_out(), code::no_memory, "--ckpt-memory");
}

Test(agent_load, ends_when_a_rank_takes_no_chunk) {
    saved s(1, 2);
    node_that_loads n(s.run, 0, 1, 2, 1, 2);
    n.deaf_rank = 1;
    n.job_.rank_wait_ms = 200;
    const uint64_t start_ns = mono_ns();
    refused(n.carry_out(), code::timeout);
    cr_assert(mono_ns() - start_ns < 8 * ns_per_s);
}

Test(agent_load, ends_when_a_rank_is_gone) {
    saved s(1, 2);
    node_that_loads n(s.run, 0, 1, 2, 1, 2);
    n.deaf_rank = 0;
    n.cancel_after_ms = 50;
    refused(n.carry_out(), code::unavailable);
}

// Answers to an earlier attempt's chunks may come while this one reads into the same places.
Test(agent_load, tickets_that_are_not_due_free_no_place) {
    saved s(1, 2);
    for (int round = 0; round < 10; round++) {
        node_that_loads n(s.run, 0, 1, 2, 1, 3);
        n.forged = true;
        need(n.carry_out());
        n.check_memory();
    }
}

Test(agent_load, cuts_pieces_at_the_chunks_of_their_source) {
    std::vector<load_source> sources(2);
    sources[0].image.chunk_bytes = 100;
    sources[1].image.chunk_bytes = 40;
    const std::vector<range_origin> origin{{0, 0}, {0, 1}, {1, 0}};
    const std::vector<pack::piece> pieces{
        {0, 0, 0, 90, 30}, {1, 5, 0, 120, 10}, {0, 30, 1, 0, 100}, {2, 0, 2, 39, 2}, {2, 2, 2, 41, 0}};
    const auto steps = cut_into_steps(pieces, origin, sources);
    cr_assert_eq(steps.size(), 5);
    const auto is = [&](size_t i, uint32_t source, uint32_t range, uint64_t chunk, size_t copies) {
        cr_assert(steps[i].source == source && steps[i].range == range && steps[i].chunk_in_range == chunk &&
                      steps[i].copies.size() == copies,
                  "step %zu", i);
    };
    is(0, 0, 0, 0, 1);
    is(1, 0, 0, 1, 2);
    is(2, 0, 1, 0, 1);
    is(3, 1, 0, 0, 1);
    is(4, 1, 0, 1, 1);
    const auto& second = steps[1].copies[1];
    cr_assert(second.shard_index == 1 && second.shard_offset == 5 && second.place_offset == 20 &&
              second.size_bytes == 10);
    cr_assert(steps[1].copies[0].shard_offset == 10 && steps[1].copies[0].place_offset == 0 &&
              steps[1].copies[0].size_bytes == 20);
    cr_assert(cut_into_steps({}, origin, sources).empty());
}
