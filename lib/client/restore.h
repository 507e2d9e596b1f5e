// The rank's side of a restore: chunks that the agent has put into the slab go to the registered memory.  The run's
// calling thread.
#pragma once

#include "arena/protocol.h"
#include "client/crew.h"
#include "client/link.h"
#include "client/registry.h"
#include "gpu/devices.h"

#include <span>

namespace varde::client {

// Who copies.
struct copyists {
    crew& hands;
    gpu::devices& gpus;
};

// Sends `restore` and copies until the agent says restored (or refuses).  `silence_ms`: how long without any frame is
// too long. The agent may begin again with an older generation; what it sends last is what counts.
result<arena::restored> restore_from(link& agent, const copyists& with, const arranged_range& target,
                                     std::span<const std::byte> slab, uint64_t silence_ms);

// Every copy must lie within the slab and within a shard of ours: the agent's numbers are checked like anybody's.
result<void> check_copies(const std::vector<arena::copy>& copies, const arranged_range& target, uint64_t slab_bytes);

}  // namespace varde::client
