// GPUs and drivers that fail: a failure is one generation without a checkpoint, with the GPU's name; never a training.
#include "client_gpu_support.h"

#include "tests/gpu/simulated.h"

#include "varde.h"

#include <criterion/criterion.h>
#include <sys/wait.h>

using namespace varde;
using namespace varde::test;

namespace {

constexpr unsigned ecc_uncorrectable = 214;

bool says(const failure& why, const std::string& part) { return why.context.find(part) != std::string::npos; }

// Tensors of two GPUs and the host, restored.
struct fixture {
    explicit fixture(uint64_t seed = 1) : some(gpus, seed, 12, 4000, 2) {
        run = open_run(agent, false);
        cr_assert(some.add_to(*run->run));
        cr_assert(run->run->restore().has_value());
    }
    ~fixture() { cr_assert_str_eq(simulated(gpus).violations(), ""); }
    fixture(const fixture&) = delete;
    fixture& operator=(const fixture&) = delete;

    result<void> save(uint64_t step) {
        if (auto begun = run->run->save(step); !begun) return begun;
        return run->run->fence();
    }
    // The next save that the agent takes goes well.
    void recovers(uint64_t step) {
        const bytes expected = some.range();
        cr_assert(eventually([&] { return save(step++).has_value(); }));
        cr_assert(run->run->wait(10'000).has_value());
        cr_assert(begins_with(agent.drained(step - 1), expected));
    }
    rig gpus{2};
    fake_agent agent{{.chunk_bytes = 4096, .places = 4}};
    gpu_tensors some;
    std::unique_ptr<opened_run> run;
};

}  // namespace

Test(client_gpu_faults, a_gpu_lost_in_a_save_is_named_and_training_goes_on) {
    fixture at;
    simulated(at.gpus).lose(1, ecc_uncorrectable, 3);
    const auto copied = at.save(1);
    cr_assert(!copied.has_value() && copied.error().what == code::io);
    cr_assert(says(copied.error(), "couldn't save step 1: GPU 1: "), "%s", copied.error().context.c_str());
    cr_assert(says(copied.error(), "CUDA_ERROR_ECC_UNCORRECTABLE (214)") && says(copied.error(), "training may go on"));
    cr_assert(at.run->run->status().failed_step == 1 && at.run->run->wait(0).error().what == code::io);
    // It stays lost; each generation says so again.
    cr_assert(eventually([&] { return at.agent.give_ups == 1; }));
    const auto next = at.save(2);
    cr_assert(!next.has_value());
    cr_assert(eventually([&] { return says(at.run->run->save(3).error(), "GPU 1: "); }));
    cr_assert(at.run->run->close().has_value());
}

Test(client_gpu_faults, a_gpu_lost_in_a_restore_is_named) {
    rig gpus(2);
    fake_agent agent;
    gpu_tensors some(gpus, 2, 12, 4000, 2, {kind::device});
    agent.image = some.range();
    agent.image_step = 5;
    auto run = open_run(agent, false);
    cr_assert(some.add_to(*run->run));
    simulated(gpus).lose(0, ecc_uncorrectable, 3);
    const auto restored = run->run->restore();
    cr_assert(!restored.has_value() && restored.error().what == code::io);
    cr_assert(says(restored.error(), "couldn't restore: GPU 0: ") && says(restored.error(), "(214)"));
    // The agent sees the end of this rank, so the others of this start do not wait for it.
    cr_assert(run->run->save(6).error().what == code::io);
    cr_assert(run->run->close().has_value());
}

namespace {

// A run that is about to restore step 5 into GPU memory.
struct restoring {
    restoring() : some(gpus, 7, 6, 4000, 1, {kind::device}), before(some.data) {
        agent.image = some.range();
        agent.image_step = 5;
        some.change();
        run = open_run(agent, false);
        cr_assert(some.add_to(*run->run));
    }
    rig gpus;
    fake_agent agent;
    gpu_tensors some;
    std::vector<bytes> before;
    std::unique_ptr<opened_run> run;
};

}  // namespace

Test(client_gpu_faults, a_restore_may_be_tried_again_when_work_before_it_did_not_end) {
    restoring at;
    simulated(at.gpus).hang(0, 0);
    const auto restored = at.run->run->restore();
    cr_assert(!restored.has_value() && restored.error().what == code::timeout);
    cr_assert(says(restored.error(), "couldn't restore: GPU 0: the program's work before it has not ended in time"));
    simulated(at.gpus).let_go(0);
    cr_assert(at.run->run->restore().value() == 5);
    cr_assert(at.some.download() == at.before);
}

Test(client_gpu_faults, a_copy_that_does_not_end_ends_the_restore_and_the_run) {
    restoring at;
    simulated(at.gpus).hang(0, 2);
    const auto restored = at.run->run->restore();
    cr_assert(!restored.has_value() && restored.error().what == code::timeout);
    cr_assert(says(restored.error(), "couldn't restore: GPU 0: a copy has not ended in time"));
    cr_assert(at.run->run->restore().error().what == code::timeout);
    cr_assert(at.run->run->close().has_value());
    at.run.reset();
    simulated(at.gpus).let_go(0);
    cr_assert(eventually([&] { return simulated(at.gpus).count().pending == 0; }));
}

Test(client_gpu_faults, a_copy_that_is_refused_costs_one_generation) {
    fixture at;
    simulated(at.gpus).fail_call("cuMemcpyDtoHAsync_v2", 3, gpu::cuda::invalid_value, false);
    const auto copied = at.save(1);
    cr_assert(!copied.has_value() && says(copied.error(), "cuMemcpyDtoHAsync failed: CUDA_ERROR_INVALID_VALUE (1)"));
    at.recovers(2);
}

Test(client_gpu_faults, work_that_does_not_end_costs_one_generation) {
    fixture at;
    simulated(at.gpus).hang(1, 0);
    const auto copied = at.save(1);
    cr_assert(!copied.has_value() && copied.error().what == code::timeout);
    cr_assert(says(copied.error(), "GPU 1: the program's work before it has not ended in time"));
    simulated(at.gpus).let_go(1);
    at.recovers(2);
}

// A copy may come at any time later: the slab stays where it is, and nobody uses it.
Test(client_gpu_faults, a_copy_that_does_not_end_ends_the_run_but_not_the_process) {
    rig gpus;
    fake_agent agent({.chunk_bytes = 65536, .places = 4});
    gpu_tensors some(gpus, 3, 3, 20'000, 1, {kind::device});
    auto run = open_run(agent, false);
    cr_assert(some.add_to(*run->run));
    cr_assert(run->run->restore().has_value());
    simulated(gpus).hang(0, 2);  // the mark of the program's work, and one copy
    cr_assert(run->run->save(1).has_value());
    const auto copied = run->run->fence();
    cr_assert(!copied.has_value() && copied.error().what == code::timeout);
    cr_assert(says(copied.error(), "GPU 0: a copy has not ended in time") && says(copied.error(), "saves no more"));
    cr_assert(run->run->save(2).error().what == code::timeout && run->run->wait(0).error().what == code::timeout);
    cr_assert(run->run->close().has_value());
    run.reset();
    cr_assert(simulated(gpus).count().pending > 0 && simulated(gpus).count().registrations == 1);
    simulated(gpus).let_go(0);  // and now they come, into memory that is still there
    cr_assert(eventually([&] { return simulated(gpus).count().pending == 0; }));
    cr_assert_str_eq(simulated(gpus).violations(), "");
}

Test(client_gpu_faults, a_slab_that_may_not_be_pinned_is_only_slower) {
    rig gpus(2);
    fake_agent agent;
    gpu_tensors some(gpus, 4, 12, 4000, 2);
    agent.image = some.range();
    agent.image_step = 5;
    const auto before = some.data;
    some.change();
    simulated(gpus).fail_call("cuMemHostRegister_v2", 1, gpu::cuda::out_of_memory, false);
    auto run = open_run(agent, false);
    cr_assert(some.add_to(*run->run));
    cr_assert(run->run->restore().value() == 5 && some.download() == before);
    cr_assert(run->run->status().pinned_bytes == 0 && run->run->status().pin_error == gpu::cuda::out_of_memory);
    some.data = before;
    const bytes expected = some.range();
    cr_assert(run->run->save(6).has_value() && run->run->wait(10'000).has_value());
    cr_assert(begins_with(agent.drained(6), expected));
    cr_assert(simulated(gpus).calls("cuMemHostRegister_v2") == 1, "it is tried once");
    cr_assert(run->run->close().has_value());
    run.reset();
    cr_assert(simulated(gpus).calls("cuMemHostUnregister") == 0);
}

// A save that says it went well did; after one that did not, the next one does.
void save_with_failures(fake_agent& agent, client::run& run, gpu_tensors& some, uint64_t& step) {
    for (int failures = 0;; failures++, step++) {
        const bytes expected = some.range();
        const auto begun = run.save(step);
        const auto copied = begun ? run.fence() : begun;
        if (!copied) {
            cr_assert(failures < 500, "%s", copied.error().context.c_str());
            ::usleep(1000);  // until the agent has answered that it was given up
            continue;
        }
        some.change();
        cr_assert(run.wait(10'000).has_value());
        cr_assert(begins_with(agent.drained(step), expected));
        return;
    }
}

// Each call of the driver fails at its first, second, ... time, until the whole life of a run needs no more of them.
Test(client_gpu_faults, any_call_of_the_driver_may_fail, .timeout = 200) {
    const char* const all[] = {
#define VARDE_CALL(name, symbol, type) #symbol,
        VARDE_CUDA_CALLS(VARDE_CALL)
#undef VARDE_CALL
    };
    rig gpus(2);
    simulated(gpus).set_speed(4'000'000'000, 0);
    gpu_tensors some(gpus, 5, 5, 3000, 2);
    uint64_t step = 0;
    const auto before = simulated(gpus).count();
    for (const char* each : all) {
        const std::string function = each;
        // These fail for nobody in this simulation: they have no way to, or no effect.
        if (function == "cuGetErrorName" || function == "cuThreadExchangeStreamCaptureMode") continue;
        for (uint64_t nth = 1; nth <= 12; nth++) {
            fake_agent agent;
            const uint64_t calls = simulated(gpus).calls(each);
            simulated(gpus).fail_call(each, nth, 999, false);
            auto run = open_run(agent, false);
            if (some.add_to(*run->run) && run->run->restore().has_value()) {
                step += 2;
                save_with_failures(agent, *run->run, some, step);
            }
            discard(run->run->close(), "it may say what the save said");
            run.reset();
            cr_assert_str_eq(simulated(gpus).violations(), "");
            cr_assert(simulated(gpus).count().depth == before.depth, "%s %lu leaves a context", each, nth);
            if (simulated(gpus).calls(each) - calls < nth) break;
        }
        simulated(gpus).forget_failures();
    }
}

Test(client_gpu_faults, no_graph_that_the_program_captures_is_disturbed) {
    fixture at;
    const auto other = at.gpus.stream(0, false);
    simulated(at.gpus).set_capturing(other, true);
    at.recovers(1);
    // On the very stream that the save comes after there is nothing to come after.
    cr_assert(at.run->run->order_after(other).has_value());
    const auto refused = at.run->run->save(100);
    cr_assert(!refused.has_value() && refused.error().what == code::invalid);
    cr_assert(says(refused.error(), "CUDA graph"));
    simulated(at.gpus).set_capturing(other, false);
    // Nor on a blocking one, which the default stream would wait for.
    const auto blocking = at.gpus.stream(1, true);
    simulated(at.gpus).set_capturing(blocking, true);
    cr_assert(says(at.run->run->save(101).error(), "CUDA graph"));
    simulated(at.gpus).set_capturing(blocking, false);
    at.recovers(102);
}

Test(client_gpu_faults, a_driver_that_is_too_old_is_refused_where_it_matters) {
    fake_agent agent;
    auto run = open_run(agent, false);
    std::byte plain[8]{};
    cr_assert(run->run->add(tensor_of("before", 8), plain).has_value(), "without a driver all memory is the host's");
    open_library(driver_path("old/libcuda.so.1"));
    const auto refused = run->run->add(tensor_of("after", 8), plain);
    cr_assert(!refused.has_value() && refused.error().what == code::unavailable);
    cr_assert(says(refused.error(), "couldn't register tensor 'after'") &&
              says(refused.error(), "cuCtxPushCurrent_v2"));
}

Test(client_gpu_faults, a_process_without_a_driver_does_not_get_one) {
    fake_agent agent;
    tensors some(6, 4, 2000);
    auto run = open_run(agent, false);
    cr_assert(some.add_to(*run->run) && run->run->restore().has_value());
    cr_assert(run->run->order_after(nullptr).error().what == code::invalid);
    cr_assert(run->run->save(1).has_value() && run->run->wait(10'000).has_value());
    cr_assert(run->run->status().pinned_bytes == 0 && run->run->status().pin_error == 0);
    cr_assert(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) == nullptr);
}

Test(client_gpu_faults, what_is_no_stream_is_refused) {
    fixture at;
    simulated(at.gpus).fail_call("cuStreamGetCtx", 1, 400, false);
    const auto refused = at.run->run->order_after(nullptr);
    cr_assert(!refused.has_value() && says(refused.error(), "CUDA_ERROR_INVALID_HANDLE (400)"));
    // The default stream is that of the current context, so there has to be one.
    at.gpus.leave();
    cr_assert(at.run->run->order_after(nullptr).error().what == code::io);
}

Test(client_gpu_faults, a_forked_child_touches_no_gpu) {
    rig gpus;
    fake_agent agent;
    varde_options options = VARDE_OPTIONS_INIT;
    options.socket = agent.path().c_str();
    options.launch = "test 1";
    varde_run* run = nullptr;
    cr_assert(varde_open(&options, &run) == VARDE_OK);
    const uint64_t shape[] = {4096};
    std::byte* memory = gpus.device_memory(0, 4096);
    const varde_shard shard{sizeof shard, "w", VARDE_U8, 1, shape, nullptr, nullptr, memory};
    uint64_t step = 0;
    cr_assert(varde_register(run, &shard) == VARDE_OK && varde_restore(run, &step) == VARDE_OK);
    const auto before = simulated(gpus).count();
    const pid_t child = ::fork();
    if (child == 0) {
        // The simulation's state came along: what the child calls would be seen there.
        const bool refused =
            varde_save(run, 1) == VARDE_E_INVALID && varde_order_after(run, nullptr) == VARDE_E_INVALID;
        const bool closed = varde_close(run) == VARDE_OK;
        ::_exit(refused && closed && same(simulated(gpus).count(), before) ? 0 : 1);
    }
    int status = 0;
    cr_assert(::waitpid(child, &status, 0) == child && status == 0);
    cr_assert(varde_save(run, 1) == VARDE_OK && varde_wait(run, 10'000) == VARDE_OK);
    cr_assert(varde_close(run) == VARDE_OK);
    cr_assert(simulated(gpus).count().registrations == 0 && simulated(gpus).count().streams == 0);
}
