// What the roster says of the step that `varde run` has started: the agents' verdict, from the same slots and by the
// same rules as the leader's (agent/leader.h).
//
// Blocking: storage may make it wait.  One thread at a time.
#pragma once

#include "agent/leader.h"
#include "store/store.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace varde::cli {

struct run_sight {
    uint64_t incarnation = 0;       // 0: the step has not opened the run yet
    std::vector<std::string> dead;  // hosts that are silent, while training has stopped
    agent::last_step last;          // the newest step
    uint64_t complete_step = 0;     // the newest that was committed in this incarnation
    bool draining = false;          // a node that lives still writes what its ranks have staged
};

class roster_watch {
public:
    // `launch`: of the step, as its ranks tell it ("slurm 7.0.1"), or the beginning of it up to a blank.
    roster_watch(std::string directory, std::string name, std::string launch, uint64_t silence_ns, uint64_t period_ns);

    // One look at all slots.
    result<run_sight> look();
    // Is the newest complete generation one of this step's?
    result<bool> has_progress() const;
    // One line for history.jsonl, of this step's incarnation; nothing where it has none.
    result<void> tell(store::history_event what);

private:
    result<void> open();
    result<bool> find_start();

    std::string directory_;
    std::string name_;
    std::string launch_;
    uint64_t silence_ns_;
    uint64_t period_ns_;
    std::optional<store::run_directory> run_;
    std::optional<store::roster> roster_;
    std::vector<agent::sighting> nodes_;
    agent::schedule pace_;
    run_sight last_;
};

}  // namespace varde::cli
