// Where the plan of this job on this node comes from (topo/PLAN.md).  Blocking; at the agent's start.
#pragma once

#include "base/result.h"
#include "topo/plan.h"

#include <string>

namespace varde::agent {

// The prolog's file, which only root or this user can have written.
result<topo::plan> read_plan(const std::string& path);

// Of this machine, for an agent without a prolog: the arena is spread over the NUMA nodes of the CPUs that it may use.
// A machine with one node needs none: the plan is empty then.  `root` is in front of /sys, for tests.
result<topo::plan> plan_here(uint64_t arena_bytes, const std::string& root = {});

}  // namespace varde::agent
