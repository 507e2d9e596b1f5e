// `varde run`: starts a step, watches it, and starts it again in the same allocation.
//
// The main thread decides, passes signals on and talks to people; two others do what may wait for storage and for
// Slurm.  A thread may hang in dead storage: the owner never destroys the object.
#pragma once

#include "agent/tasks.h"
#include "cli/allocation.h"
#include "cli/child.h"
#include "cli/program.h"
#include "cli/restart_choice.h"
#include "cli/roster_watch.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace varde::cli {

struct run_settings {
    std::vector<std::string> arguments;  // srun and what the user gave it
    std::string slurm_bin;
    std::string host;  // this node, as Slurm calls it
    uint64_t job_id = 0;
    uint64_t restart_count = 0;  // of the job, by Slurm
    bool batch = false;          // the job can be requeued
    std::string directory;       // of checkpoints
    std::string name;            // of the run
    uint64_t max_restarts = 0;
    exit_codes final_exits;
    uint64_t silence_ns = 0;
    uint64_t pulse_ns = 0;
};

class supervisor {
public:
    supervisor(run_settings with, console to);

    // Returns the exit status of the last step.
    int run();

private:
    result<void> start_step();
    void watch_step();
    void look();
    void find_step();
    void pump(uint64_t most_ns);
    void pump_until(uint64_t most_ns, bool (supervisor::*reached)() const);
    void take_signals();
    step_end facts_of_end();
    void ask_job(step_end& end);
    void find_dead(step_end& end);
    void find_progress(step_end& end);
    bool is_drained() const { return fresh_looks_ > 1 && !sight_.draining; }
    bool knows_progress() const { return progress_.has_value(); }
    bool is_told_to_end() const { return stopped_; }
    void tell_restart(const step_end& end, const std::string& reason, const std::string& onto);
    void restart_step(const step_end& end);
    int leave_to_requeue();
    int exit_status();
    void say(const std::string& text) const;

    run_settings with_;
    console to_;
    allocation slurm_;
    unique_fd signals_;  // before the threads, so that they have them blocked
    agent::inbox main_;
    bool stopped_ = false;
    uint64_t restarts_ = 0;  // in place

    // The step
    std::optional<child> srun_;
    std::optional<uint32_t> number_;
    std::vector<step_node> nodes_;  // its, or where the next one goes
    std::vector<std::string> place_;
    std::vector<std::string> usable_;
    roster_watch* roster_ = nullptr;
    run_sight sight_;
    uint64_t stopped_wall_ns_ = 0;  // when it was known to have ended, or to have lost nodes
    uint64_t looked_ns_ = 0;
    uint64_t fresh_looks_ = 0;  // since its ranks have ended; slots tell of that a period later
    uint64_t step_serial_ = 0;  // what another step's look has seen is not this one's
    std::optional<result<bool>> progress_;
    bool looking_ = false;
    bool finding_ = false;
    bool storage_told_ = false;

    std::vector<std::unique_ptr<roster_watch>> rosters_;  // of all steps: a look at an earlier one may be under way
    agent::task_thread storage_{"varde-storage"};
    agent::task_thread asking_{"varde-slurm"};
};

}  // namespace varde::cli
