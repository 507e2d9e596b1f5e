// The worker: the child process that does the agent's work; its main loop.
#pragma once

#include "agent/node.h"

#include <array>

namespace varde::agent {

// What the parent hands to each worker.
struct inheritance {
    unique_fd listening;
    unique_fd control;
    unique_fd arena;
    std::array<unique_fd, 2> ledger;
};

// Runs until SIGTERM and everything staged is written, or, embedded, until the last rank is done.  Returns the
// process's exit status: 0 for such an end, anything else makes the parent start a new worker.
int run_worker(inheritance from, const settings& with);

}  // namespace varde::agent
