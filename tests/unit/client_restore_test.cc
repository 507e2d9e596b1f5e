// Restores: the registered memory gets what the agent has, and no number of the agent's is believed.
#include "client_fake_agent.h"

#include "client/restore.h"

#include <criterion/criterion.h>

using namespace varde;
using namespace varde::test;

namespace {

void is_refused(const std::function<arena::restore_chunk(const arena::layout&)>& make) {
    fake_agent agent;
    agent.answer_restore = [&](const arena::layout& layout) {
        return std::vector{arena::frame_of(make(layout)), arena::frame_of(arena::restored{1, 1})};
    };
    auto run = open_run(agent, false);
    tensors some(1, 3, 1000);
    cr_assert(some.add_to(*run->run));
    cr_assert(run->run->restore().error().what == code::internal);
    // And from then on nothing is believed or written.
    cr_assert(run->run->save(1).error().what == code::internal);
    cr_assert(run->progress.live.load() == &run->progress.nobody);
}

}  // namespace

Test(client_restore, the_memory_is_as_it_was_saved) {
    for (uint64_t seed = 1; seed <= 6; seed++) {
        fake_agent agent({.chunk_bytes = 4096, .places = 2});
        tensors some(seed, 1 + seed * 4, 3000);
        agent.image = some.range();
        agent.image_step = 40 + seed;
        const auto before = some.data;
        some.scramble();
        auto run = open_run(agent, false);
        cr_assert(some.add_to(*run->run));
        cr_assert(run->run->restore().value() == 40 + seed);
        cr_assert(some.data == before);
        cr_assert(run->run->status().restored_step == 40 + seed && run->run->status().incarnation == 7);
        // Steps go on from there.
        cr_assert(run->run->save(40 + seed).error().what == code::invalid);
        cr_assert(run->run->save(41 + seed).has_value());
    }
}

Test(client_restore, large_chunks_are_copied_by_the_crew) {
    fake_agent agent({.chunk_bytes = 4 << 20, .places = 2});
    tensors some(1, 0, 1);
    some.shards.push_back({"large", pack::dtype::u8, {9'000'001}, {}, {}, 0, 0});
    some.data.emplace_back(9'000'001);
    some.scramble();
    agent.image = some.range();
    agent.image_step = 3;
    const auto before = some.data;
    some.scramble();
    auto run = open_run(agent, false);
    cr_assert(some.add_to(*run->run));
    cr_assert(run->run->restore().value() == 3);
    cr_assert(some.data == before);
}

Test(client_restore, nothing_to_restore_leaves_the_memory_alone) {
    fake_agent agent;
    tensors some(2, 3, 1000);
    const auto before = some.data;
    auto run = open_run(agent, false);
    cr_assert(some.add_to(*run->run));
    cr_assert(run->run->restore().value() == 0);
    cr_assert(some.data == before);
}

Test(client_restore, a_later_attempt_overwrites_an_earlier_one) {
    fake_agent agent;
    bytes memory(8);
    agent.answer_restore = [&](const arena::layout&) {
        return std::vector{arena::frame_of(arena::restore_chunk{0, {{0, 0, 0, 8}}}),
                           arena::frame_of(arena::restore_chunk{1, {{0, 0, 0, 4}}}),
                           arena::frame_of(arena::restore_chunk{2, {{0, 4, 4096, 4}}}),
                           arena::frame_of(arena::restored{5, 2})};
    };
    auto run = open_run(agent, false);
    cr_assert(run->run->add({"x", pack::dtype::u8, {8}, {}, {}, 0, 0}, memory.data()).has_value());
    cr_assert(run->run->restore().value() == 5);
}

Test(client_restore, copies_outside_of_shard_or_slab_are_refused) {
    is_refused([](const arena::layout& l) {
        return arena::restore_chunk{0, {{static_cast<uint32_t>(l.shards.size()), 0, 0, 1}}};
    });
    is_refused([](const arena::layout&) { return arena::restore_chunk{0, {{0, UINT64_MAX, 0, 2}}}; });
    is_refused([](const arena::layout&) { return arena::restore_chunk{0, {{0, 0, 0, 1 << 20}}}; });
    is_refused([](const arena::layout&) { return arena::restore_chunk{0, {{0, 0, 8 * 4096, 1}}}; });
    is_refused([](const arena::layout&) { return arena::restore_chunk{0, {{0, 0, UINT64_MAX, 1}}}; });
}

Test(client_restore, the_agents_refusal_comes_back_as_it_is) {
    fake_agent agent;
    agent.answer_restore = [](const arena::layout&) {
        return std::vector{arena::frame_of(arena::refused{code::damaged, "all three are torn"})};
    };
    auto run = open_run(agent, false);
    const auto done = run->run->restore();
    cr_assert(done.error().what == code::damaged && done.error().context == "all three are torn");
    cr_assert(run->run->restore().error().what == code::damaged, "a refusal is final");
}

Test(client_restore, a_refusal_that_came_before_the_call_is_not_lost) {
    fake_agent agent;
    auto run = open_run(agent, false);
    agent.say(arena::frame_of(arena::refused{code::busy, "job 8 has it"}));
    ::usleep(50'000);
    cr_assert(run->run->restore().error().what == code::busy);
}

Test(client_restore, silence_has_an_end) {
    fake_agent agent({.restores = false});
    auto run = open_run(agent, false);
    const auto begun = mono_ns();
    cr_assert(run->run->restore().error().what == code::timeout);
    cr_assert(mono_ns() - begun < 3 * ns_per_s);
}

Test(client_restore, goes_on_with_the_agents_next_worker) {
    fake_agent agent;
    std::atomic<int> asked{0};
    tensors some(3, 4, 1000);
    agent.image = some.range();
    agent.image_step = 12;
    agent.answer_restore = [&](const arena::layout&) -> std::vector<std::string> {
        if (asked++ == 0)
            return {arena::frame_of(arena::restore_chunk{0, {{0, 0, 0, 1}}}),
                    "not a frame at all, long enough to be a head"};
        return {arena::frame_of(arena::restored{12, 3})};
    };
    auto run = open_run(agent, false);
    cr_assert(some.add_to(*run->run));
    cr_assert(run->run->restore().value() == 12);
    cr_assert(asked == 2);
    cr_assert(agent.hellos().size() == 2 && agent.hellos()[0].again == 0 && agent.hellos()[1].again == 1);
    cr_assert(agent.layouts().size() == 2);
}
