// Saves: what arrives in the ring is the arranged range, byte for byte, however small the ring and whatever changes
// meanwhile.
#include "client_fake_agent.h"

#include <criterion/criterion.h>

using namespace varde;
using namespace varde::test;

namespace {

bool starts_with(const bytes& whole, const bytes& part) {
    return whole.size() >= part.size() && std::equal(part.begin(), part.end(), whole.begin());
}

void save_and_compare(fake_agent& agent, client::run& run, tensors& some, uint64_t step) {
    const bytes expected = some.range();
    cr_assert(run.save(step).has_value());
    cr_assert(run.fence().has_value());
    some.scramble();  // the memory may change from here on
    cr_assert(run.wait(5000).has_value());
    cr_assert(starts_with(agent.drained(step), expected), "step %lu", step);
}

}  // namespace

Test(client_save, random_tensors_arrive_byte_for_byte) {
    for (uint64_t seed = 1; seed <= 12; seed++) {
        fake_agent agent({.chunk_bytes = 4096 * (1 + seed % 3), .places = 2 + seed % 7});
        auto run = open_run(agent);
        tensors some(seed, 1 + seed * 3, 5000);
        cr_assert(some.add_to(*run->run));
        for (uint64_t step = 1; step <= 3; step++) save_and_compare(agent, *run->run, some, step);
        cr_assert(run->run->close().has_value());
    }
}

Test(client_save, a_ring_much_smaller_than_the_range_is_only_slower) {
    fake_agent agent({.chunk_bytes = 4096, .places = 2});
    auto run = open_run(agent);
    tensors some(3, 5, 100'000);
    cr_assert(some.add_to(*run->run));
    cr_assert(some.range().size() > 100 * 4096);
    save_and_compare(agent, *run->run, some, 1);
    save_and_compare(agent, *run->run, some, 5);
}

Test(client_save, a_ring_that_holds_all_does_not_wait_for_the_agent) {
    fake_agent agent({.chunk_bytes = 4096, .places = 64});
    agent.drains = false;
    auto run = open_run(agent);
    tensors some(4, 3, 5000);
    cr_assert(some.add_to(*run->run));
    const bytes expected = some.range();
    cr_assert(run->run->save(1).has_value());
    cr_assert(run->run->fence().has_value());
    cr_assert(run->run->wait(0).error().what == code::timeout);
    some.scramble();
    agent.drains = true;
    cr_assert(run->run->wait(5000).has_value());
    cr_assert(starts_with(agent.drained(1), expected));
}

Test(client_save, nothing_registered_is_a_generation_too) {
    fake_agent agent;
    auto run = open_run(agent);
    cr_assert(run->run->save(1).has_value());
    cr_assert(run->run->wait(5000).has_value());
    cr_assert(agent.saves().at(0).chunk_count == 0);
}

Test(client_save, the_layout_is_sent_again_only_when_it_changed) {
    fake_agent agent;
    auto run = open_run(agent);
    tensors some(5, 4, 1000);
    cr_assert(some.add_to(*run->run));
    save_and_compare(agent, *run->run, some, 1);
    const size_t layouts = agent.layouts().size();
    save_and_compare(agent, *run->run, some, 2);
    cr_assert(agent.layouts().size() == layouts);
    cr_assert(agent.saves().at(0).layout_version == agent.saves().at(1).layout_version);

    cr_assert(run->run->remove("tensor 2").has_value());
    some.shards.erase(some.shards.begin() + 2);
    some.data.erase(some.data.begin() + 2);
    save_and_compare(agent, *run->run, some, 3);
    cr_assert(agent.layouts().size() == layouts + 1);
    cr_assert(agent.layouts().back().version == agent.saves().at(2).layout_version);
    cr_assert(agent.layouts().back().version > agent.saves().at(1).layout_version);
    cr_assert(agent.layouts().back().shards.size() == 3);
    cr_assert(run->run->remove("tensor 2").error().what == code::not_found);
}

Test(client_save, registering_while_the_copy_runs_does_not_disturb_it) {
    fake_agent agent({.chunk_bytes = 4096, .places = 2});
    agent.drains = false;
    auto run = open_run(agent);
    tensors some(6, 3, 20'000);
    cr_assert(some.add_to(*run->run));
    const bytes expected = some.range();
    cr_assert(run->run->save(1).has_value());
    bytes more(64);
    cr_assert(run->run->add({"one more", pack::dtype::u8, {64}, {}, {}, 0, 0}, more.data()).has_value());
    agent.drains = true;
    cr_assert(run->run->fence().has_value());
    cr_assert(run->run->wait(5000).has_value());
    cr_assert(starts_with(agent.drained(1), expected));
}

Test(client_save, steps_must_grow_and_come_after_the_restore) {
    fake_agent agent;
    auto run = open_run(agent, false);
    cr_assert(run->run->save(1).error().what == code::invalid);
    cr_assert(run->run->restore().has_value());
    cr_assert(run->run->save(0).error().what == code::invalid);
    cr_assert(run->run->save(3).has_value());
    cr_assert(run->run->save(3).error().what == code::invalid);
    cr_assert(run->run->save(2).error().what == code::invalid);
    cr_assert(run->run->save(4).has_value());
    cr_assert(run->run->restore().error().what == code::invalid);
}

Test(client_save, steps_and_counters_are_where_the_agent_and_the_user_look) {
    fake_agent agent;
    auto run = open_run(agent);
    tensors some(7, 2, 1000);
    cr_assert(some.add_to(*run->run));
    cr_assert(run->run->save(9).has_value());
    cr_assert(agent.rank()->saving_step == 9 && agent.rank()->progress_step == 9);
    cr_assert(run->run->wait(5000).has_value());
    cr_assert(run->run->fence().has_value());
    const auto now = run->run->status();
    cr_assert(now.saved_step == 9 && now.complete_step == 9 && now.failed_step == 0 && now.saves == 1 &&
              now.incarnation == 7);
    cr_assert(now.staged_bytes == some.range().size());
    cr_assert(now.stall_ns > 0 && now.stall_ns_max > 0 && now.stall_ns_max <= now.stall_ns);
}

Test(client_save, bad_shards_are_refused_where_they_are_registered) {
    fake_agent agent;
    auto run = open_run(agent);
    std::byte data[8]{};
    const auto add = [&](pack::shard what, std::byte* at) { return run->run->add(std::move(what), at); };
    cr_assert(add({"x", pack::dtype::u8, {8}, {}, {}, 0, 0}, data).has_value());
    cr_assert(add({"x", pack::dtype::u8, {8}, {}, {}, 0, 0}, data).error().what == code::invalid);
    cr_assert(add({"y", pack::dtype::u8, {8}, {}, {}, 0, 0}, nullptr).error().what == code::invalid);
    cr_assert(add({"z", pack::dtype::u8, {0}, {}, {}, 0, 0}, nullptr).has_value());
    cr_assert(add({"o", pack::dtype::u8, {8}, {8}, {1}, 0, 0}, data).error().what == code::invalid);
    cr_assert(add({"big", pack::dtype::u8, {UINT64_MAX}, {}, {}, 0, 0}, data).error().what == code::invalid);
    cr_assert(add({"", pack::dtype::u8, {8}, {}, {}, 0, 0}, data).error().what == code::invalid);
}

Test(client_save, close_waits_for_the_copy_and_says_bye) {
    fake_agent agent({.chunk_bytes = 4096, .places = 2});
    auto run = open_run(agent);
    tensors some(8, 3, 20'000);
    cr_assert(some.add_to(*run->run));
    const bytes expected = some.range();
    cr_assert(run->run->save(1).has_value());
    cr_assert(run->run->close().has_value());
    cr_assert(agent.byes == 1);
    cr_assert(eventually([&] { return starts_with(agent.drained(1), expected); }));
}
