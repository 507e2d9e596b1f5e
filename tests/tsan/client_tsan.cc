// The client's threads under ThreadSanitizer: link, crew and caller, through saves, restores, losses and give-ups.
//
// A plain program, because the unit test framework does not start under ThreadSanitizer.  0: all went well; a race
// ends it with 66.
#include "../unit/client_fake_agent.h"

#include <cstdio>

using namespace varde;
using namespace varde::test;

namespace {

void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "client_tsan: %s\n", what);
    std::_Exit(1);
}

void saves_and_losses() {
    fake_agent agent({.chunk_bytes = 4096, .places = 3});
    auto run = open_run(agent);
    tensors some(1, 6, 10'000);
    require(some.add_to(*run->run), "register");
    uint64_t step = 1;
    for (int round = 0; round < 20; round++) {
        run->progress.live.load()->progress_step.store(step, std::memory_order_relaxed);
        const bytes expected = some.range();
        if (round % 5 == 2) agent.drop_after_chunks = agent.chunks_taken + 7;
        require(eventually([&] { return run->run->save(step++).has_value(); }), "save");
        require(run->run->fence().has_value(), "fence");
        some.scramble();
        require(run->run->wait(10'000).has_value(), "wait");
        const bytes got = agent.drained(step - 1);
        require(got.size() >= expected.size() && std::equal(expected.begin(), expected.end(), got.begin()), "bytes");
    }
    require(run->run->close().has_value(), "close");
}

void give_ups() {
    fake_agent agent({.chunk_bytes = 4096, .places = 2});
    auto run = open_run(agent);
    tensors some(2, 4, 10'000);
    require(some.add_to(*run->run), "register");
    agent.drains = false;
    require(run->run->save(1).has_value(), "save");
    require(!run->run->fence().has_value(), "a stalled agent must be noticed");
    agent.drains = true;
    uint64_t step = 2;
    require(eventually([&] { return run->run->save(step++).has_value(); }), "save after a give-up");
    require(run->run->wait(10'000).has_value(), "wait after a give-up");
}

void restores() {
    fake_agent agent({.chunk_bytes = 2 << 20, .places = 2});
    tensors some(3, 0, 1);
    some.shards.push_back({"large", pack::dtype::u8, {7'000'001}, {}, {}, 0, 0});
    some.data.emplace_back(7'000'001);
    some.scramble();
    agent.image = some.range();
    agent.image_step = 3;
    const auto before = some.data;
    some.scramble();
    auto run = open_run(agent, false);
    require(some.add_to(*run->run), "register");
    const auto step = run->run->restore();
    require(step.has_value() && *step == 3 && some.data == before, "restore");
}

}  // namespace

int main() {
    saves_and_losses();
    give_ups();
    restores();
    std::puts("client_tsan: ok");
    return 0;
}
