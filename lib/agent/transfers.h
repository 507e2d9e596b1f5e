// What to do with transfers that were begun and are not wanted any more.
#pragma once

#include "agent/log.h"
#include "io/engine.h"

#include <string>

namespace varde::agent {

// Returns once nothing is in flight: until then the slabs and buffers of the transfers belong to the kernel.  It may
// wait as long as the storage does, and says so; mover thread only.
void settle_transfers(io::engine& engine, logger& log, const std::string& path);

}  // namespace varde::agent
