// The epilog's work: the end of a job's agent on this node.
#pragma once

#include "base/result.h"
#include "prolog/agent_stop.h"

#include <cstdint>
#include <string>

namespace varde::node {

// In the directory of a job whose epilog could not end all of it; what is left waits for the next one of another job.
constexpr const char* left_name = "left";

// Lets what is staged become durable (at most `drain_ms`), then removes processes, control group, socket and state of
// exactly this job. Idempotent; a job that this node knows nothing of is no failure.  The failure tells what is left.
// If that is a process or its control group, directory and state stay: the next prolog or epilog of the job tries
// again.
result<void> end_job(const std::string& run_directory, uint32_t job_id, int drain_ms, stop_function stop = stop_agent);

}  // namespace varde::node
