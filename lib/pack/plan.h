// Which saved bytes fill which registered bytes: the plan of a restore, also onto another number of ranks.  No I/O;
// any thread.
#pragma once

#include "pack/layout.h"

namespace varde::pack {

// A run of bytes that is contiguous both in the saved range and in the wanted shard.
struct piece {
    uint32_t shard_index = 0;    // into the wanted range's shards
    uint64_t shard_offset = 0;   // bytes from the start of the wanted shard
    uint32_t source = 0;         // index into `saved`
    uint64_t source_offset = 0;  // bytes from the start of the saved range
    uint64_t size_bytes = 0;
};

// Every wanted byte exactly once, sorted by source and source_offset.  Where several ranks saved the same bytes
// (replicated tensors), the same rank's copy is taken first, then the first in `saved`.
// Errors: mismatch with the tensor's name: not saved at all, another dtype or global shape, or a part nobody saved
// (named by its offset); no_memory where it falls into more pieces than a plan may have.
result<std::vector<piece>> plan_restore(const range& wanted, std::span<const range> saved);

}  // namespace varde::pack
