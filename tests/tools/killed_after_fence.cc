// A rank that dies as ranks die: it stages one generation, waits for the fence, and is killed by SIGKILL at that
// moment.
//
// For tests: the generation must become complete all the same, because what is staged belongs to the agent.  Exit:
// never normally; 1 with one line if a call before the kill failed.
#include "varde.h"

#include <csignal>
#include <cstdio>
#include <vector>

namespace {

int complain(const char* call, const varde_run* run) {
    std::fprintf(stderr, "%s: %s\n", call, varde_error_text(run));
    return 1;
}

}  // namespace

int main() {
    varde_run* run = nullptr;
    if (varde_open(nullptr, &run) != VARDE_OK) return complain("varde_open", nullptr);
    std::vector<float> values(8 << 20, 1.5F);  // 32 MiB: the agent has just begun when the rank dies
    const uint64_t shape = values.size();
    const varde_shard shard{sizeof shard, "values", VARDE_F32, 1, &shape, nullptr, nullptr, values.data()};
    if (varde_register(run, &shard) != VARDE_OK) return complain("varde_register", run);
    uint64_t step = 0;
    if (varde_restore(run, &step) != VARDE_OK) return complain("varde_restore", run);
    if (varde_save(run, step + 1) != VARDE_OK) return complain("varde_save", run);
    if (varde_fence(run) != VARDE_OK) return complain("varde_fence", run);
    std::raise(SIGKILL);
}
