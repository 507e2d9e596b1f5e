// What `varde run` does when its step has ended, or nodes of it have died.  Pure; any thread.
#pragma once

#include "agent/requeue.h"

#include <optional>
#include <string>
#include <vector>

namespace varde::cli {

struct step_end {
    bool stopped = false;            // by a signal that was meant for us
    std::optional<int> exit_status;  // of srun; none: it still runs, beside nodes that are dead
    std::string job_state;           // of Slurm; empty: it did not answer
    std::vector<std::string> dead;   // hosts of the step
    bool progress = false;           // it has made a complete generation
    bool enough_nodes = false;       // for another step
    agent::restart_budget budget;
    exit_codes final_exits;
};

enum class next_move : uint8_t {
    finish,   // with the step's exit status
    restart,  // in place
    requeue,  // the job
};
struct choice {
    next_move what = next_move::finish;
    std::string why;  // one line for people; empty: nothing is to be said
};
choice choose_move(const step_end& end);

}  // namespace varde::cli
