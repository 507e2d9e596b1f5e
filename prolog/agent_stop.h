// Ends a job's agent and everything it has started, and nothing else.
#pragma once

#include "base/result.h"
#include "prolog/state.h"

namespace varde::node {

enum class stop_outcome : uint8_t { gone, drained, killed };

// SIGTERM (the agent writes what is staged and exits), at most `drain_ms` of waiting, then SIGKILL to what is left of
// its control group and its session.  0: SIGKILL at once.  Processes are those that `what` names by number and start
// time, and those in the control group of its job; a stranger who has a number now is left alone.  A failure tells what
// could not be removed; as much as possible has been done then.
result<stop_outcome> stop_agent(const state& what, int drain_ms);
using stop_function = result<stop_outcome> (*)(const state& what, int drain_ms);  // tests have agents that don't end

// SIGKILL to whoever is left of the session, until nobody is.  Fails where that takes `timeout_ms` in which none of
// them has used the processor: one that gives much memory back is busy with it, one that the kernel holds is not.
result<void> end_session(const process_name& leader, uid_t owner, int timeout_ms);

// The agent that `what` names is alive.
bool agent_alive(const state& what);

}  // namespace varde::node
