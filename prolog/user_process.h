// The way of a forked child from root in slurmd's session to a process of the user's: for the agent, and for errands.
// Each call is for the child alone.
#pragma once

#include <cstdint>
#include <sys/types.h>

namespace varde::node {

// Default actions, nothing blocked.
void reset_signals();

// Standard streams to /dev/null, `count` descriptors to 3, 4, ..., all others closed.  Nothing of slurmd's stays open:
// it waits for whoever holds its pipes.
bool arrange_descriptors(const int* kept, int count);

// For good: no root among the real, effective and saved identities.  The groups come from the host's user database, in
// this process, because a database that hangs must not hang the prolog.
bool become(uid_t uid, gid_t gid);

}  // namespace varde::node
