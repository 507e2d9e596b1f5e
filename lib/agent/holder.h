// The holder: the parent process that owns what must survive - the memory, the listening socket, the ledger - and
// restarts the worker.
#pragma once

#include "agent/memory.h"
#include "agent/worker.h"

namespace varde::agent {

// Runs until a worker ends with status 0; SIGTERM is passed on to the worker.  The arena is locked in the background;
// what cannot be locked is said in the log.  Returns an exit status.
int run_holder(unique_fd listening, node_memory memory, const settings& with);

}  // namespace varde::agent
