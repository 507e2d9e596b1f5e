// What a test may do to the simulated driver besides calling it: how fast it is, what fails, and what it has seen.
//
// A test opens libcuda.so.1 of the build by its path and asks for `varde_sim_control`.  Any thread.
#pragma once

#include <cstdint>

namespace varde::sim {

// What exists now.
struct counts {
    uint64_t streams = 0;  // without the default ones
    uint64_t events = 0;
    uint64_t registrations = 0;
    uint64_t retains = 0;      // of primary contexts
    uint64_t allocations = 0;  // device, managed, and pinned by cuMemHostAlloc
    uint64_t pending = 0;      // operations that have not ended
    uint64_t depth = 0;        // of the calling thread's stack of contexts
};

struct control {
    // Each operation takes `latency_us`, up to as much again at random, and its bytes at this speed.
    void (*set_speed)(uint64_t bytes_per_s, uint64_t latency_us);
    // The nth call from now on (1: the next) of a function returns `status`; the GPU is lost with it, if so asked.
    void (*fail_call)(const char* function, uint64_t nth, unsigned status, bool loses_gpu);
    void (*forget_failures)();
    // The GPU is lost once it has ended so many more operations: from then on all its calls return `status`.
    void (*lose)(int ordinal, unsigned status, uint64_t after_operations);
    // While it hangs, a GPU begins no operation: from once it has ended so many more, until it is let go.
    void (*hang)(int ordinal, uint64_t after_operations);
    void (*let_go)(int ordinal);
    // As between cuStreamBeginCapture and cuStreamEndCapture, in the global mode.
    void (*set_capturing)(void* stream, bool capturing);
    uint64_t (*calls)(const char* function);
    counts (*count)();
    // What no correct program does, a line each; "" if nothing.
    const char* (*violations)();
};

}  // namespace varde::sim

extern "C" const varde::sim::control* varde_sim_control();
