// The way to the agent: connect to its socket, make sure who listens there, shake hands.
//
// Nothing here waits beyond its deadline, whatever the other side does.  Any thread.
#pragma once

#include "arena/protocol.h"
#include "base/clock.h"
#include "base/handle.h"
#include "base/result.h"

#include <string>

namespace varde::client {

// not_found: no such socket; unavailable: nobody listens there any more; io: somebody else's (who listens is neither we
// nor root; where root has no number, in a rootless container, the socket must be one that only root can have given
// us).
result<unique_fd> connect_to(const std::string& path, deadline until);

// What the agent has answered to hello.
struct greeting {
    arena::welcome body;
    unique_fd control;
    unique_fd arena;
    arena::frame_reader rest;  // what came after the welcome
};

// Says hello and waits for the answer.  Ends early, as unavailable, when `stop` (an eventfd, or -1) becomes readable.
// The agent's refusal comes back as it is.
result<greeting> shake_hands(int socket, const arena::hello& body, deadline until, int stop);

}  // namespace varde::client
