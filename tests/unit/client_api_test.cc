// The C API: pointers, sizes, forks, texts and threads; what the calls do inside is tested in the other client tests.
#include "client_fake_agent.h"

#include "varde.h"

#include <criterion/criterion.h>
#include <sys/wait.h>

using namespace varde::test;

namespace {

varde_run* open_c(const fake_agent& agent, bool restored = true) {
    varde_options options = VARDE_OPTIONS_INIT;
    options.socket = agent.path().c_str();
    varde_run* run = nullptr;
    uint64_t step = 0;
    if (varde_open(&options, &run) != VARDE_OK) std::fprintf(stderr, "%s\n", varde_error_text(nullptr));
    if (run != nullptr && restored && varde_restore(run, &step) != VARDE_OK)
        std::fprintf(stderr, "%s\n", varde_error_text(run));
    return run;
}

varde_shard some_shard(const char* name, void* data, const uint64_t* shape) {
    varde_shard shard{};
    shard.size = sizeof shard;
    shard.name = name;
    shard.dtype = VARDE_F32;
    shard.dims = 1;
    shard.shape = shape;
    shard.data = data;
    return shard;
}

bool says(const varde_run* run, const char* part) {
    const std::string text = varde_error_text(run);
    if (!text.starts_with("varde: ") || text.find('\n') != std::string::npos) return false;
    return text.find(part) != std::string::npos;
}

}  // namespace

Test(client_api, the_life_of_a_run) {
    fake_agent agent;
    varde_run* run = open_c(agent);
    cr_assert(run != nullptr);
    float weights[100] = {1, 2, 3};
    const uint64_t shape[] = {100};
    const varde_shard shard = some_shard("weights", weights, shape);
    cr_assert(varde_register(run, &shard) == VARDE_OK);
    cr_assert(varde_due(run, 1) == 0);
    agent.rank()->due_step = 2;
    cr_assert(varde_due(run, 2) == 1);
    cr_assert(agent.rank()->progress_step == 2);
    cr_assert(varde_save(run, 2) == VARDE_OK);
    cr_assert(varde_fence(run) == VARDE_OK);
    cr_assert(varde_wait(run, 5000) == VARDE_OK);
    varde_status_info now{};
    now.size = sizeof now;
    cr_assert(varde_status(run, &now) == VARDE_OK);
    cr_assert(now.complete_step == 2 && now.saves == 1);
    cr_assert(std::memcmp(agent.drained(2).data(), weights, sizeof weights) == 0);
    cr_assert(varde_unregister(run, "weights") == VARDE_OK);
    cr_assert(varde_unregister(run, "weights") == VARDE_E_NOT_FOUND && says(run, "'weights'"));
    cr_assert(varde_close(run) == VARDE_OK);
}

Test(client_api, step_zero_is_never_due) {
    fake_agent agent;
    varde_run* run = open_c(agent);
    cr_assert(varde_due(run, 0) == 0);
    cr_assert(varde_close(run) == VARDE_OK);
}

Test(client_api, null_is_an_error_and_no_crash) {
    fake_agent agent;
    varde_run* run = open_c(agent, false);
    uint64_t step = 77;
    cr_assert(varde_open(nullptr, nullptr) == VARDE_E_INVALID && says(nullptr, "ret_run"));
    cr_assert(varde_register(nullptr, nullptr) == VARDE_E_INVALID);
    cr_assert(varde_restore(nullptr, &step) == VARDE_E_INVALID);
    cr_assert(varde_save(nullptr, 1) == VARDE_E_INVALID && varde_fence(nullptr) == VARDE_E_INVALID);
    cr_assert(varde_wait(nullptr, 1) == VARDE_E_INVALID && varde_status(nullptr, nullptr) == VARDE_E_INVALID);
    cr_assert(varde_due(nullptr, 1) == 0 && varde_close(nullptr) == VARDE_OK);
    cr_assert(varde_register(run, nullptr) == VARDE_E_INVALID && says(run, "shard"));
    cr_assert(varde_unregister(run, nullptr) == VARDE_E_INVALID && varde_status(run, nullptr) == VARDE_E_INVALID);
    cr_assert(varde_restore(run, nullptr) == VARDE_E_INVALID && says(run, "ret_step"));
    cr_assert(step == 77, "out parameters are untouched on failure");
    cr_assert(varde_close(run) == VARDE_OK);
}

Test(client_api, structs_of_another_size_are_refused) {
    fake_agent agent;
    varde_run* run = nullptr;
    for (const size_t size : {size_t{0}, sizeof(varde_options) - 8, sizeof(varde_options) + 8}) {
        varde_options options = VARDE_OPTIONS_INIT;
        options.size = size;
        cr_assert(varde_open(&options, &run) == VARDE_E_INVALID && run == nullptr && says(nullptr, "size"));
    }
    run = open_c(agent);
    float data[1];
    const uint64_t shape[] = {1};
    varde_shard shard = some_shard("x", data, shape);
    shard.size = 3;
    cr_assert(varde_register(run, &shard) == VARDE_E_INVALID && says(run, "size"));
    varde_status_info now{};
    cr_assert(varde_status(run, &now) == VARDE_E_INVALID);
    cr_assert(varde_close(run) == VARDE_OK);
}

Test(client_api, bad_options_are_named) {
    varde_run* run = nullptr;
    varde_options options = VARDE_OPTIONS_INIT;
    options.rank = -2;
    cr_assert(varde_open(&options, &run) == VARDE_E_INVALID && says(nullptr, "rank"));
    options = VARDE_OPTIONS_INIT;
    options.interval_s = -5;
    cr_assert(varde_open(&options, &run) == VARDE_E_INVALID && says(nullptr, "interval_s"));
    options = VARDE_OPTIONS_INIT;
    options.name = "a/b";
    cr_assert(varde_open(&options, &run) == VARDE_E_INVALID);
    options = VARDE_OPTIONS_INIT;
    options.rank = 3;
    options.world = 2;
    cr_assert(varde_open(&options, &run) == VARDE_E_INVALID && says(nullptr, "rank 3 of 2"));
    cr_assert(run == nullptr);
}

Test(client_api, bad_shards_are_named) {
    fake_agent agent;
    varde_run* run = open_c(agent);
    float data[4];
    const uint64_t shape[] = {4};
    varde_shard shard = some_shard("w", data, shape);
    const unsigned no_type = 300;
    std::memcpy(&shard.dtype, &no_type, sizeof no_type);
    cr_assert(varde_register(run, &shard) == VARDE_E_INVALID && says(run, "element type 300"));
    shard = some_shard("w", data, nullptr);
    cr_assert(varde_register(run, &shard) == VARDE_E_INVALID && says(run, "shape is NULL"));
    shard = some_shard("w", data, shape);
    shard.dims = 65;
    cr_assert(varde_register(run, &shard) == VARDE_E_INVALID && says(run, "65 dimensions"));
    shard = some_shard("w", data, shape);
    shard.global_shape = shape;
    cr_assert(varde_register(run, &shard) == VARDE_E_INVALID && says(run, "offset"));
    shard = some_shard(nullptr, data, shape);
    cr_assert(varde_register(run, &shard) == VARDE_E_INVALID);
    const std::string long_name(5000, 'n');
    shard = some_shard(long_name.c_str(), data, shape);
    cr_assert(varde_register(run, &shard) == VARDE_E_INVALID);
    shard = some_shard("w", nullptr, shape);
    cr_assert(varde_register(run, &shard) == VARDE_E_INVALID && says(run, "NULL"));
    cr_assert(varde_close(run) == VARDE_OK);
}

Test(client_api, a_forked_child_can_do_no_harm) {
    fake_agent agent;
    varde_run* run = open_c(agent);
    cr_assert(varde_due(run, 3) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
        varde_status_info now{};
        now.size = sizeof now;
        uint64_t step = 0;
        float data[1];
        const uint64_t shape[] = {1};
        const varde_shard shard = some_shard("x", data, shape);
        const bool good =
            varde_due(run, 9) == 0 && varde_save(run, 9) == VARDE_E_INVALID && varde_fence(run) == VARDE_E_INVALID &&
            varde_wait(run, 0) == VARDE_E_INVALID && varde_restore(run, &step) == VARDE_E_INVALID &&
            varde_register(run, &shard) == VARDE_E_INVALID && varde_status(run, &now) == VARDE_E_INVALID &&
            std::string(varde_error_text(run)).find("fork") != std::string::npos && varde_close(run) == VARDE_OK;
        ::_exit(good ? 0 : 1);
    }
    int status = 0;
    cr_assert(::waitpid(child, &status, 0) == child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
    cr_assert(agent.rank()->progress_step == 3, "the child has written nothing");
    cr_assert(varde_save(run, 4) == VARDE_OK && varde_wait(run, 5000) == VARDE_OK, "the parent's run goes on");
    cr_assert(varde_close(run) == VARDE_OK);
}

Test(client_api, two_threads_in_one_run_are_a_mistake_but_no_crash) {
    fake_agent agent;
    varde_run* run = open_c(agent);
    std::vector<float> data(10'000);
    const uint64_t shape[] = {data.size()};
    const varde_shard shard = some_shard("x", data.data(), shape);
    cr_assert(varde_register(run, &shard) == VARDE_OK);
    std::atomic<uint64_t> step{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([&] {
            for (int round = 0; round < 50; round++) {
                const uint64_t mine = ++step;
                varde_due(run, mine);
                varde_save(run, mine);
                varde_fence(run);
                varde_status_info now{};
                now.size = sizeof now;
                varde_status(run, &now);
                varde_error_text(run);
                varde_wait(run, 0);
            }
        });
    }
    for (auto& each : threads) each.join();
    cr_assert(varde_close(run) == VARDE_OK);
}

Test(client_api, the_threads_of_the_library_take_no_signal) {
    fake_agent agent;
    sigset_t all;
    ::sigfillset(&all);
    varde_run* run = open_c(agent);
    cr_assert(varde_save(run, 1) == VARDE_OK && varde_wait(run, 5000) == VARDE_OK);
    int ours = 0;
    for (const char* name : {"varde-link", "varde-copy"}) {
        std::string command = std::string("for t in /proc/") + std::to_string(::getpid()) +
                              "/task/*; do [ \"$(cat $t/comm)\" = " + name +
                              " ] && grep -q '^SigBlk:.*fffffffe' $t/status && exit 0; done; exit 1";
        ours += ::system(command.c_str()) == 0;
    }
    cr_assert(ours == 2);
    cr_assert(varde_close(run) == VARDE_OK);
}

Test(client_api, names_and_version) {
    cr_assert(std::string(varde_version()) == VARDE_VERSION);
    cr_assert(std::string(varde_code_name(VARDE_OK)) == "ok" &&
              std::string(varde_code_name(VARDE_E_FENCED)) == "fenced");
    cr_assert(std::string(varde_code_name(-1)) == "unknown" && std::string(varde_code_name(13)) == "unknown");
    cr_assert(std::string(varde_error_text(nullptr)).starts_with("varde: "));
}
