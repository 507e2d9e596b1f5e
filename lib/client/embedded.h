// The embedded default: where no prolog has started an agent, the library starts varde-agent itself, unprivileged.
//
// The local ranks of one start share one agent: a directory of this user's own holds a lock and a socket named after
// the start, and whoever gets the lock first starts the agent.  No signal handler is set and no child but our own is
// waited for.  Any thread.
#pragma once

#include "base/clock.h"
#include "base/handle.h"
#include "base/options.h"
#include "base/result.h"

#include <string>
#include <string_view>

namespace varde::client {

struct embedded_agent {
    unique_fd socket;
    std::string path;  // of the socket, to come back to
};

result<embedded_agent> embedded_connect(std::string_view launch, const std::string& host, environment get,
                                        deadline until);

// "${XDG_RUNTIME_DIR:-/tmp}/varde-UID", made if need be; refused where it is a link or another user can get in.
result<std::string> embedded_directory(environment get);

// The agent's program: VARDE_AGENT, else near the loaded library, else where it was installed.
result<std::string> agent_program(environment get);

}  // namespace varde::client
