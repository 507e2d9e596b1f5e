// The threads of a run with GPUs under ThreadSanitizer: caller, crew and the simulated driver's, through saves,
// restores, tensors that come meanwhile, and a GPU that is lost.
//
// A plain program, because the unit test framework does not start under ThreadSanitizer.  0: all went well; a race
// ends it with 66.
#include "../unit/client_gpu_support.h"

using namespace varde;
using namespace varde::test;

namespace {

void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "client_gpu_tsan: %s\n", what);
    std::_Exit(1);
}

void saves(rig& gpus) {
    fake_agent agent({.chunk_bytes = 4096, .places = 3});
    gpu_tensors some(gpus, 1, 12, 4000, 2);
    agent.image = some.range();
    agent.image_step = 1;
    auto run = open_run(agent, false);
    require(some.add_to(*run->run), "register");
    require(run->run->restore().has_value(), "restore");
    std::byte* more = gpus.device_memory(2, 64);
    for (uint64_t step = 2; step < 12; step++) {
        const bytes expected = some.range();
        require(run->run->save(step).has_value(), "save");
        if (step == 5) require(run->run->add(tensor_of("more", 64), more).has_value(), "register meanwhile");
        if (step == 7) require(run->run->remove("more").has_value(), "unregister");
        require(run->run->fence().has_value(), "fence");
        some.change();
        require(run->run->wait(10'000).has_value(), "wait");
        const bytes got = agent.drained(step);
        require(step == 5 || step == 6 || begins_with(got, expected), "bytes");
    }
    require(run->run->close().has_value(), "close");
}

void losses(rig& gpus) {
    fake_agent agent;
    gpu_tensors some(gpus, 2, 12, 4000, 2);
    auto run = open_run(agent, false);
    require(some.add_to(*run->run), "register");
    require(run->run->restore().has_value(), "restore");
    gpus.control->lose(1, 214, 3);
    require(!run->run->save(1).has_value() || !run->run->fence().has_value(), "a lost GPU must be noticed");
    require(run->run->close().has_value(), "close");
}

}  // namespace

int main() {
    rig gpus(3);
    saves(gpus);
    losses(gpus);
    require(gpus.control->violations()[0] == '\0', gpus.control->violations());
    std::puts("client_gpu_tsan: ok");
    return 0;
}
