// The same blocking step for many files, some at a time: on a network file system each is a round trip, and 2,048 of
// them one after the other are seconds.  Threads live for one call and are joined.
#pragma once

#include <cstdint>
#include <functional>

namespace varde::store {

// Calls work(i) once for each i below `count`, from this thread and up to 15 others, none for fewer than 32 calls each.
// `work` is called from several threads at a time and must not throw.
void for_each_index(uint32_t count, const std::function<void(uint32_t)>& work);

}  // namespace varde::store
