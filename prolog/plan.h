// The plan of a job on this node (topo/PLAN.md): made by root, followed by the agent, read by people.
#pragma once

#include "base/options.h"
#include "config/config.h"
#include "topo/plan.h"

#include <cstdint>
#include <vector>

namespace varde::node {

constexpr const char* plan_name = "plan";  // in the job's directory

// From this machine's topology, what Slurm says of the job's GPUs (SLURM_JOB_GPUS) and the site's settings.  A value
// that makes no sense is noted in the plan.  Takes some milliseconds per hundred devices.
result<topo::plan> plan_job(const config& site, uint64_t arena_bytes, uint64_t page_bytes, environment get);

// The plan's inputs, for a machine that is known.
result<topo::plan> plan_job_on(const topo::machine& machine, const config& site, uint64_t arena_bytes,
                               uint64_t page_bytes, environment get);

}  // namespace varde::node
