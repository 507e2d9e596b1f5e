// The epilog's work: the end of a job's agent on this node.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <string>

namespace varde::node {

// Lets what is staged become durable (at most `drain_ms`), then removes processes, control group, socket and state of
// exactly this job. Idempotent; a job that this node knows nothing of is no failure.  The failure tells what is left;
// it has done the rest.
result<void> end_job(const std::string& run_directory, uint32_t job_id, int drain_ms);

}  // namespace varde::node
