// The prolog's work for a job that asked for checkpoints.
#pragma once

#include "prolog/agent_stop.h"
#include "prolog/request.h"
#include "prolog/state.h"

#include <string>

namespace varde::node {

struct places {
    std::string run_directory = run_directory_path;
    std::string config;
    std::string agent;  // program
};

// Sets up the node for the job, or says why not: the state it returns is what state.json holds (where that could be
// written). Idempotent: an agent of this start of the job that is alive is kept; one of an earlier start, and all it
// left, is removed.  If it cannot be, the node is degraded and the state names it still, for the next to try.
state set_up(const result<request>& asked, uint32_t job_id, const places& where, stop_function stop = stop_agent);

}  // namespace varde::node
