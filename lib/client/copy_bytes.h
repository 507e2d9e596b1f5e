// Copying between registered memory and the slab.
#pragma once

#include <cstddef>

namespace varde::client {

// As memcpy().  Large copies go past the caches: neither the training program nor the agent reads those bytes soon, and
// a line that is written whole need not be read first.  Every store is done before it returns, for all that the caller
// stores afterwards.  Any thread.
void copy_bytes(std::byte* target, const std::byte* source, size_t size_bytes) noexcept;

}  // namespace varde::client
