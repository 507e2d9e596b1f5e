// What jobs left on this node that ended without an epilog, for the start of the system.
#pragma once

#include <string>

namespace varde::node {

// Does the epilog's work, without a drain, for every job below the run directory whose agent does not live, and tells
// the journal of each.  To be called while the node has no jobs: one that runs degraded would lose its state.
void end_stale_jobs(const std::string& run_directory);

// The same for jobs that an epilog has left (drain.h), while others run.
void end_left_jobs(const std::string& run_directory);

}  // namespace varde::node
