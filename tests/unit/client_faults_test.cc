// The agent dies, hangs, refuses, lies: training goes on, every wait ends, and what can be saved is saved.
#include "client_fake_agent.h"

#include "client/connect.h"

#include <criterion/criterion.h>

using namespace varde;
using namespace varde::test;

namespace {

result<std::unique_ptr<client::run>> try_open(const fake_agent& agent, client::progress_page& progress) {
    return client::run::open(some_settings(agent), no_environment, {"host", {1, 1}, {1, 1}}, short_patience, progress);
}

bool starts_with(const bytes& whole, const bytes& part) {
    return whole.size() >= part.size() && std::equal(part.begin(), part.end(), whole.begin());
}

}  // namespace

Test(client_faults, an_agent_that_dies_in_mid_copy_and_comes_back_gets_the_whole_generation) {
    fake_agent agent({.chunk_bytes = 4096, .places = 4});
    auto run = open_run(agent);
    tensors some(1, 4, 20'000);
    cr_assert(some.add_to(*run->run));
    const bytes expected = some.range();
    agent.drop_after_chunks = 5;
    cr_assert(run->run->save(1).has_value());
    cr_assert(run->run->fence().has_value());
    cr_assert(run->run->wait(5000).has_value());
    cr_assert(starts_with(agent.drained(1), expected));
    cr_assert(agent.hellos().size() == 2 && agent.hellos()[1].again == 1);
    cr_assert(eventually([&] { return agent.saves().size() == 2; }), "the new worker was told again");
    // And the next one as if nothing had been.
    cr_assert(run->run->save(2).has_value());
    cr_assert(run->run->wait(5000).has_value());
}

Test(client_faults, without_an_agent_a_save_fails_at_once_and_works_again_later) {
    fake_agent agent;
    auto run = open_run(agent);
    tensors some(2, 3, 1000);
    cr_assert(some.add_to(*run->run));
    agent.accepts = false;
    agent.drop();
    uint64_t step = 1;
    cr_assert(eventually([&] {
        const auto saved = run->run->save(step++);
        return !saved && saved.error().what == code::unavailable;
    }));
    const auto begun = mono_ns();
    const auto failed = run->run->save(step++);
    cr_assert(failed.error().what == code::unavailable);
    cr_assert(mono_ns() - begun < 100 * ns_per_ms);
    cr_assert(run->run->fence().has_value(), "nothing is under way");
    agent.accepts = true;
    cr_assert(eventually([&] { return run->run->save(step++).has_value(); }));
    cr_assert(run->run->wait(5000).has_value());
}

Test(client_faults, an_agent_that_stalls_makes_the_generation_be_given_up_in_time) {
    fake_agent agent({.chunk_bytes = 4096, .places = 2});
    auto run = open_run(agent);
    tensors some(3, 3, 20'000);
    cr_assert(some.add_to(*run->run));
    agent.drains = false;
    cr_assert(run->run->save(1).has_value());
    const auto begun = mono_ns();
    cr_assert(run->run->fence().error().what == code::timeout);
    cr_assert(mono_ns() - begun < 3 * ns_per_s);
    cr_assert(run->run->wait(0).error().what == code::timeout);
    cr_assert(run->run->status().failed_step == 1);
    // The agent has answered, so the next generation is whole again.
    cr_assert(eventually([&] { return agent.give_ups == 1; }));
    agent.drains = true;
    const bytes expected = some.range();
    uint64_t step = 2;
    cr_assert(eventually([&] { return run->run->save(step++).has_value(); }));
    cr_assert(run->run->wait(5000).has_value());
    cr_assert(starts_with(agent.drained(step - 1), expected));
}

Test(client_faults, after_an_unanswered_give_up_nothing_is_staged_and_nothing_waits) {
    fake_agent agent({.chunk_bytes = 4096, .places = 2, .answers_give_up = false});
    auto run = open_run(agent);
    tensors some(4, 3, 20'000);
    cr_assert(some.add_to(*run->run));
    agent.drains = false;
    cr_assert(run->run->save(1).has_value());
    cr_assert(!run->run->fence().has_value());
    const uint64_t staged = agent.rank()->staged;
    cr_assert(staged < agent.saves().at(0).chunk_count, "old bytes must not look like staged ones");
    const auto begun = mono_ns();
    cr_assert(run->run->save(2).error().what == code::unavailable);
    cr_assert(mono_ns() - begun < 100 * ns_per_ms);
    cr_assert(agent.rank()->staged == staged);
}

Test(client_faults, wait_notices_a_copy_that_fails_meanwhile) {
    fake_agent agent({.chunk_bytes = 4096, .places = 2});
    auto run = open_run(agent);
    tensors some(5, 3, 20'000);
    cr_assert(some.add_to(*run->run));
    agent.drains = false;
    cr_assert(run->run->save(1).has_value());
    cr_assert(run->run->wait(10'000).error().what == code::timeout);
    cr_assert(run->run->status().failed_step == 1);
}

Test(client_faults, numbers_that_cannot_be_poison_the_run) {
    for (const uint64_t released : {uint64_t{1000}, UINT64_MAX}) {
        fake_agent agent({.chunk_bytes = 4096, .places = 2});
        auto run = open_run(agent);
        tensors some(6, 3, 20'000);
        cr_assert(some.add_to(*run->run));
        agent.drains = false;
        agent.rank()->released = released;
        cr_assert(run->run->save(1).has_value());
        cr_assert(run->run->fence().error().what == code::internal);
        cr_assert(run->run->save(2).error().what == code::internal);
        cr_assert(run->run->wait(0).error().what == code::internal);
        cr_assert(run->progress.live.load() == &run->progress.nobody);
        cr_assert(run->run->close().has_value());
    }
}

Test(client_faults, a_released_number_that_falls_poisons_the_run) {
    fake_agent agent({.chunk_bytes = 4096, .places = 2});
    auto run = open_run(agent);
    tensors some(7, 2, 20'000);
    cr_assert(some.add_to(*run->run));
    cr_assert(run->run->save(1).has_value());
    cr_assert(run->run->wait(5000).has_value());
    agent.drains = false;
    agent.rank()->released = 0;
    cr_assert(run->run->save(2).has_value());
    cr_assert(run->run->fence().error().what == code::internal);
}

Test(client_faults, a_fenced_run_saves_no_more) {
    fake_agent agent({.chunk_bytes = 4096, .places = 2});
    auto run = open_run(agent);
    tensors some(8, 3, 20'000);
    cr_assert(some.add_to(*run->run));
    agent.drains = false;
    cr_assert(run->run->save(1).has_value());
    agent.node()->fenced = 1;
    cr_assert(run->run->fence().error().what == code::fenced);
    cr_assert(run->run->save(2).error().what == code::fenced);
}

Test(client_faults, a_generation_that_fails_on_storage_is_told_by_wait) {
    fake_agent agent;
    agent.completes = false;
    auto run = open_run(agent);
    cr_assert(run->run->save(4).has_value());
    agent.node()->failed_step = 4;
    cr_assert(run->run->wait(1000).error().what == code::io);
    cr_assert(run->run->status().failed_step == 4);
}

Test(client_faults, an_agent_that_never_answers_hello_is_given_up) {
    fake_agent agent({.answers_hello = false});
    client::progress_page progress;
    const auto begun = mono_ns();
    cr_assert(try_open(agent, progress).error().what == code::unavailable);
    cr_assert(mono_ns() - begun < 5 * ns_per_s);
}

Test(client_faults, a_refused_hello_comes_back_as_it_is) {
    fake_agent agent({.refusal = {code::busy, "step 7.0 has the run open"}});
    client::progress_page progress;
    const auto opened = try_open(agent, progress);
    cr_assert(opened.error().what == code::busy && opened.error().context == "step 7.0 has the run open");
}

Test(client_faults, memory_that_is_not_what_it_says_is_refused) {
    client::progress_page progress;
    fake_agent smaller({.places_said = 4096});
    cr_assert(try_open(smaller, progress).error().what == code::invalid);
    fake_agent foreign({.magic = 1});
    cr_assert(try_open(foreign, progress).error().what == code::invalid);
    fake_agent narrow({.places = 1});
    cr_assert(try_open(narrow, progress).error().what == code::invalid);
    fake_agent crooked({.chunk_bytes = 1000});
    cr_assert(try_open(crooked, progress).error().what == code::invalid);
}

Test(client_faults, no_socket_is_unavailable) {
    client::progress_page progress;
    fake_agent agent;
    auto with = some_settings(agent);
    with.socket = "/tmp/there-is-no-such-directory/agent.sock";
    cr_assert(client::run::open(with, no_environment, {}, short_patience, progress).error().what == code::unavailable);
    with.socket = "/" + std::string(200, 'x');
    cr_assert(client::run::open(with, no_environment, {}, short_patience, progress).error().what == code::invalid);
}

Test(client_faults, another_agent_on_the_same_socket_is_not_taken_for_ours) {
    fake_agent agent;
    auto run = open_run(agent);
    agent.replace_memory();
    uint64_t step = 1;
    cr_assert(eventually([&] {
        const auto saved = run->run->save(step++);
        return !saved && saved.error().what == code::internal;
    }));
}

Test(client_faults, garbage_from_the_agent_is_a_lost_connection) {
    fake_agent agent;
    auto run = open_run(agent);
    agent.say("this is no frame, but it is longer than the head of one");
    cr_assert(eventually([&] { return agent.hellos().size() == 2; }));
    cr_assert(eventually([&, step = uint64_t{1}]() mutable { return run->run->save(step++).has_value(); }));
    cr_assert(run->run->wait(5000).has_value());
}

Test(client_faults, a_stopped_agent_holds_up_no_call) {
    fake_agent agent({.chunk_bytes = 4096, .places = 64});
    auto run = open_run(agent);
    agent.stopped = true;
    // Each save sends a large layout again: more than a socket takes.
    bytes data(1);
    const auto begun = mono_ns();
    uint64_t name = 0;
    for (uint64_t step = 1; step <= 20; step++) {
        for (int i = 0; i < 300; i++)
            cr_assert(run->run
                          ->add({std::to_string(name++) + std::string(1000, 'n'), pack::dtype::u8, {1}, {}, {}, 0, 0},
                                data.data())
                          .has_value());
        cr_assert(run->run->save(step).has_value());
        cr_assert(run->run->fence().has_value());
    }
    cr_assert(run->run->wait(50).error().what == code::timeout);
    cr_assert(mono_ns() - begun < 20 * ns_per_s);
    // It wakes up and finds everything in order.
    agent.stopped = false;
    cr_assert(eventually([&] { return agent.saves().size() == 20; }));
    cr_assert(run->run->close().has_value());
}

Test(client_connect, gives_the_peer_to_know_only_to_ourselves_and_root) {
    fake_agent agent;
    cr_assert(client::connect_to(agent.path(), deadline::in_ms(100)).has_value());
    cr_assert(client::connect_to("/tmp/no-such.sock", deadline::in_ms(100)).error().what == code::not_found);
}
