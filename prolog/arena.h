// The size, pages and places of a job's arena on this node.
#pragma once

#include "config/config.h"
#include "prolog/job_directory.h"
#include "prolog/request.h"
#include "prolog/state.h"

namespace varde::node {

// Chooses them, writes the plan into the job's directory and takes huge pages where the site wants some; `made` has the
// outcome.  no_memory: the node has too little, with need, what there is, and what to set.  Everything but the size is
// a wish: where it cannot be had, the journal says why.
result<void> set_up_arena(const job_directory& directory, const request& job, const config& site, state& made);

// To be called when the job's agent has ended.  A failure is in the journal too, and worth another try: until then the
// job's directory, which has the record, must stay.
result<void> tear_down_arena(const job_directory& directory);

}  // namespace varde::node
