// Runs whose tensors lie in GPU memory: what arrives in the ring is what the program's work left there, byte for byte.
#include "client_gpu_support.h"

#include "tests/gpu/simulated.h"

#include <criterion/criterion.h>

using namespace varde;
using namespace varde::test;

namespace {

void no_violations(const rig& gpus) {
    if (gpus.control != nullptr) cr_assert_str_eq(gpus.control->violations(), "");
}

void save_and_compare(fake_agent& agent, client::run& run, gpu_tensors& some, uint64_t step) {
    const bytes expected = some.range();
    cr_assert(run.save(step).has_value());
    const auto copied = run.fence();
    cr_assert(copied.has_value(), "%s", copied ? "" : copied.error().context.c_str());
    some.change();  // from here on the memory may
    cr_assert(run.wait(10'000).has_value());
    cr_assert(begins_with(agent.drained(step), expected), "step %lu", step);
}

// A run with one tensor in GPU memory, restored.
struct one_tensor {
    explicit one_tensor(rig& with, kind what = kind::device) : gpus(with) {
        memory = what == kind::pinned ? with.pinned_memory(0, size) : with.device_memory(0, size);
        if (what == kind::pinned) std::memset(memory, 1, size);
        else with.write(0, memory, bytes(size, std::byte{1}));
        run = open_run(agent, false);
        cr_assert(run->run->add(tensor_of("weights", size), memory).has_value());
        cr_assert(run->run->restore().has_value());
    }
    // What a save right now stores.
    bytes saved(uint64_t step) {
        cr_assert(run->run->save(step).has_value());
        cr_assert(run->run->fence().has_value());
        cr_assert(run->run->wait(10'000).has_value());
        return agent.drained(step);
    }
    static constexpr size_t size = 50'000;
    rig& gpus;
    fake_agent agent;
    std::byte* memory = nullptr;
    std::unique_ptr<opened_run> run;
};

}  // namespace

Test(client_gpu, every_kind_of_memory_arrives_byte_for_byte) {
    rig gpus(3);
    for (uint64_t seed = 1; seed <= 6; seed++) {
        fake_agent agent({.chunk_bytes = 4096 * (1 + seed % 3), .places = 2 + seed % 5});
        gpu_tensors some(gpus, seed, 1 + seed * 5, 5000, 1 + seed % 3);
        auto run = open_run(agent, false);
        cr_assert(some.add_to(*run->run));
        cr_assert(run->run->restore().has_value());
        for (uint64_t step = 1; step <= 3; step++) save_and_compare(agent, *run->run, some, step);
        cr_assert(run->run->close().has_value());
    }
    no_violations(gpus);
}

Test(client_gpu, every_kind_of_memory_is_restored_byte_for_byte) {
    rig gpus(2);
    fake_agent agent({.chunk_bytes = 8192, .places = 4});
    gpu_tensors some(gpus, 9, 17, 5000, 2);
    agent.image = some.range();
    agent.image_step = 30;
    const auto before = some.data;
    some.change();
    auto run = open_run(agent, false);
    cr_assert(some.add_to(*run->run));
    cr_assert(run->run->restore().value() == 30);
    cr_assert(some.download() == before);
    some.data = before;
    save_and_compare(agent, *run->run, some, 31);
    no_violations(gpus);
}

Test(client_gpu, thousands_of_tiny_tensors_cost_one_event_a_chunk) {
    rig gpus;
    simulated(gpus).set_speed(4'000'000'000, 0);
    fake_agent agent({.chunk_bytes = 8192, .places = 4});
    gpu_tensors some(gpus, 10, 3000, 9, 1, {kind::device});
    auto run = open_run(agent, false);
    cr_assert(some.add_to(*run->run));
    cr_assert(run->run->restore().has_value());
    const uint64_t copies = simulated(gpus).calls("cuMemcpyDtoHAsync_v2");
    const uint64_t events = simulated(gpus).calls("cuEventRecord");
    const uint64_t made = simulated(gpus).count().events;
    save_and_compare(agent, *run->run, some, 1);
    cr_assert(simulated(gpus).calls("cuMemcpyDtoHAsync_v2") - copies > 2000);
    const uint64_t chunks = agent.saves().at(0).chunk_count;
    cr_assert(simulated(gpus).calls("cuEventRecord") - events == chunks + 1);
    // One for each thread that copies, at most; a second save makes none.
    cr_assert(simulated(gpus).count().events - made <= 3);
    no_violations(gpus);
}

Test(client_gpu, a_save_comes_after_the_work_on_the_default_stream) {
    rig gpus;
    one_tensor one(gpus);
    gpus.step(0, nullptr, one.memory, one.size, 7);
    cr_assert(holds_only(one.saved(1), one.size, 7));
    // Which waits for blocking streams.
    gpus.step(0, gpus.stream(0, true), one.memory, one.size, 8);
    cr_assert(holds_only(one.saved(2), one.size, 8));
    no_violations(gpus);
}

Test(client_gpu, a_save_comes_after_the_work_on_the_stream_that_was_named) {
    rig gpus;
    one_tensor one(gpus);
    const auto stream = gpus.stream(0, false);
    cr_assert(one.run->run->order_after(stream).has_value());
    gpus.step(0, stream, one.memory, one.size, 9);
    cr_assert(holds_only(one.saved(1), one.size, 9));
    // Back to the default stream.
    cr_assert(one.run->run->order_after(nullptr).has_value());
    gpus.step(0, nullptr, one.memory, one.size, 10);
    cr_assert(holds_only(one.saved(2), one.size, 10));
    no_violations(gpus);
}

// So the two above would fail if nothing were waited for.
Test(client_gpu, a_non_blocking_stream_that_was_not_named_is_not_waited_for) {
    rig gpus;
    one_tensor one(gpus);
    gpus.step(0, gpus.stream(0, false), one.memory, one.size, 9);
    cr_assert(holds_only(one.saved(1), one.size, 1));
}

Test(client_gpu, pinned_memory_is_copied_after_the_work_that_writes_it) {
    rig gpus;
    one_tensor one(gpus, kind::pinned);
    gpus.step(0, nullptr, one.memory, one.size, 5);
    cr_assert(holds_only(one.saved(1), one.size, 5));
    no_violations(gpus);
}

Test(client_gpu, work_on_every_named_gpu_comes_before_a_copy_from_any) {
    rig gpus(2);
    one_tensor one(gpus, kind::pinned);
    // GPU 1 writes memory that is registered on GPU 0.
    const auto stream = gpus.stream(1, false);
    cr_assert(one.run->run->order_after(stream).has_value());
    gpus.step(1, stream, one.memory, one.size, 6);
    cr_assert(holds_only(one.saved(1), one.size, 6));
    no_violations(gpus);
}

Test(client_gpu, a_restore_comes_after_work_that_was_enqueued_before_it) {
    rig gpus;
    fake_agent agent;
    const size_t size = 30'000;
    std::byte* memory = gpus.device_memory(0, size);
    agent.image = bytes(32768, std::byte{42});
    agent.image_step = 3;
    auto run = open_run(agent, false);
    cr_assert(run->run->add(tensor_of("weights", size), memory).has_value());
    gpus.step(0, nullptr, memory, size, 0);  // as a model that is being initialised
    cr_assert(run->run->restore().value() == 3);
    cr_assert(holds_only(gpus.read(0, memory, size), size, 42));
    no_violations(gpus);
}

// What the rule "the memory must not change before varde_fence" is for, and that these tests would see it broken.
Test(client_gpu, the_simulation_catches_a_missing_fence) {
    rig gpus;
    fake_agent agent({.chunk_bytes = 65536, .places = 8});
    gpu_tensors some(gpus, 11, 4, 20'000, 1, {kind::managed});
    auto run = open_run(agent, false);
    cr_assert(some.add_to(*run->run));
    cr_assert(run->run->restore().has_value());
    const bytes expected = some.range();
    // The GPU stops after the mark of the program's work and one copy; meanwhile the host writes.
    simulated(gpus).hang(0, 2);
    cr_assert(run->run->save(1).has_value());
    cr_assert(eventually([&] { return simulated(gpus).calls("cuMemcpyDtoHAsync_v2") > 1; }));
    some.scramble();
    for (size_t i = 0; i < some.places.size(); i++)
        if (!some.data[i].empty()) std::memcpy(some.places[i].at, some.data[i].data(), some.data[i].size());
    simulated(gpus).let_go(0);
    cr_assert(run->run->wait(10'000).has_value());
    cr_assert(!begins_with(agent.drained(1), expected));
}

Test(client_gpu, the_callers_context_stays_as_it_is) {
    rig gpus(2);
    fake_agent agent;
    gpu_tensors some(gpus, 12, 10, 3000, 2);
    agent.image = some.range();
    agent.image_step = 1;
    auto run = open_run(agent, false);
    const auto stream = gpus.stream(1, false);
    for (const bool with_context : {true, false}) {
        with_context ? gpus.use(1) : gpus.leave();
        const auto here = gpus.current();
        cr_assert((here != nullptr) == with_context);
        if (with_context) {
            cr_assert(some.add_to(*run->run));
            cr_assert(gpus.current() == here && run->run->restore().has_value());
        }
        const uint64_t step = run->run->status().saved_step + 2;
        cr_assert(run->run->order_after(stream).has_value() && gpus.current() == here);
        cr_assert(run->run->save(step).has_value() && gpus.current() == here);
        cr_assert(run->run->fence().has_value() && gpus.current() == here);
        cr_assert(run->run->wait(10'000).has_value() && gpus.current() == here);
        if (!with_context) cr_assert(run->run->close().has_value() && gpus.current() == here);
    }
    no_violations(gpus);
}

Test(client_gpu, closing_releases_everything) {
    rig gpus(3);
    gpu_tensors some(gpus, 13, 20, 3000, 3);
    fake_agent agent;
    const auto before = simulated(gpus).count();
    {
        auto run = open_run(agent, false);
        cr_assert(some.add_to(*run->run));
        cr_assert(run->run->restore().has_value());
        save_and_compare(agent, *run->run, some, 1);
        cr_assert(run->run->status().pinned_bytes == 8 * 4096 && run->run->status().pin_error == 0);
        cr_assert(simulated(gpus).count().registrations == 1 && simulated(gpus).count().streams >= 3);
        cr_assert(run->run->save(2).has_value());
        cr_assert(run->run->close().has_value());
    }
    cr_assert(same(simulated(gpus).count(), before) && simulated(gpus).count().pending == 0);
    no_violations(gpus);
}

Test(client_gpu, tensors_may_be_registered_while_others_are_copied) {
    rig gpus(2);
    simulated(gpus).set_speed(50'000'000, 100);
    fake_agent agent({.chunk_bytes = 4096, .places = 2});
    gpu_tensors some(gpus, 14, 6, 8000, 1);
    auto run = open_run(agent, false);
    cr_assert(some.add_to(*run->run));
    cr_assert(run->run->restore().has_value());
    const bytes expected = some.range();
    cr_assert(run->run->save(1).has_value());
    // The first of another GPU.
    cr_assert(run->run->add(tensor_of("more", 100), gpus.device_memory(1, 100)).has_value());
    cr_assert(run->run->wait(10'000).has_value());
    cr_assert(begins_with(agent.drained(1), expected));
    cr_assert(run->run->save(2).has_value() && run->run->wait(10'000).has_value());
    no_violations(gpus);
}
