// Steps of make_plan() that say where things are.
#pragma once

#include "topo/plan.h"

namespace varde::topo {

// A share without bytes for each NUMA node that may hold a part of the arena: memory of CPUs that may be used.  CPUs of
// the other nodes belong to the nearest of them.
std::vector<node_share> usable_memory(const machine& on);

// Fills gpus: each at the node that it is near; where several are equally near, at the one with the fewest so far.
void place_gpus(plan& to, const machine& on, const request& wanted);

// Fills storage: what is named, else the one interface that it can be.
void place_storage(plan& to, const machine& on, const request& wanted);

}  // namespace varde::topo
