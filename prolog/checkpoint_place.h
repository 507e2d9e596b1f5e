// Where a job's checkpoints go, as far as its options tell.  Pure; any thread.
#pragma once

#include "prolog/request.h"

#include <optional>
#include <string>

namespace varde::node {

struct checkpoint_place {
    std::string directory;  // absolute
    std::string run_name;   // empty: the prolog cannot know it, or it lies deeper than `directory`
};

// The library's rules (client/settings.cc).  Older Slurms don't tell the prolog the job's name: a path with %x in it
// ends before that part then.  none: not even a first part is known.  The program may give another place to
// varde_open, which nobody can know before it runs.
std::optional<checkpoint_place> place_of(const request& job);

}  // namespace varde::node
