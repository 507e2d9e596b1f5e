// The pulse: a thread that writes this node's slot and reads the others', about once a second.
//
// All roster I/O is here, because storage may make it wait; the main loop goes on.  The main loop sets what the slot
// says (set_slot) and gets what was seen through its inbox.  Only the leader reads all slots; the others read those up
// to the leader's.
#pragma once

#include "agent/leader.h"
#include "agent/tasks.h"
#include "base/handle.h"

#include <functional>
#include <vector>

namespace varde::agent {

struct pulse_options {
    uint64_t period_ms = 1000;       // while training
    uint64_t quick_period_ms = 100;  // while a start is under way: four looks decide how long a restart takes
    uint64_t silence_ns = 0;
};

class pulse {
public:
    using seen_handler = std::function<void(std::vector<sighting>)>;  // main loop
    using fenced_handler = std::function<void(uint64_t newer, std::string host)>;
    using taken_handler = std::function<void(std::string by)>;
    using failed_handler = std::function<void(failure)>;  // first of a row of failures
    using step_reader =
        std::function<void(uint64_t& step_min, uint64_t& step_max)>;  // from shared memory, on the pulse's thread

    struct handlers {
        seen_handler seen;
        fenced_handler fenced;
        taken_handler taken;  // the run is another job's: slot 0 stays that job's, and alive
        failed_handler failed;
        step_reader steps;
    };

    // `mine` has its incarnation, or 0: then slot 0 is watched until its launch is ours, and taken over from there.
    pulse(store::roster roster, const pulse_options& options, store::slot mine, inbox& main, handlers call);
    ~pulse() = default;  // after stop() has returned true

    void set_slot(const store::slot& mine);  // main loop; written at the next beat
    void beat_soon();                        // ... which is now
    // Writes the slot once more and ends the thread.  false: it hangs in dead storage; the owner must then let the
    // object live for ever.
    [[nodiscard]] bool stop(uint64_t timeout_ms);

private:
    void work();
    bool wait_for_beat();
    void beat();
    result<void> look(store::slot& mine);
    result<void> look_at(uint32_t index);
    void note(uint32_t index, const result<store::slot>& read);
    result<bool> check_fence(const store::slot& mine);
    void adopt();
    void watch_other(const store::slot& other);

    store::roster roster_;
    pulse_options options_;
    inbox& main_;
    handlers call_;

    std::mutex mutex_;
    std::condition_variable changed_;
    store::slot mine_;
    bool soon_ = false;
    bool stop_ = false;
    bool stopped_ = false;

    // The thread's own.
    std::vector<sighting> nodes_;
    uint64_t sequence_ = 0;
    uint64_t step_max_ = 0;
    uint64_t step_wall_ns_ = 0;  // when it last grew
    bool failing_ = false;
    bool fenced_ = false;
    std::string other_launch_;  // whose slot 0 is, while our incarnation is not known
    uint64_t other_sequence_ = 0;
    uint64_t other_since_ns_ = 0;
    bool other_alive_ = false;
    std::thread thread_;
};

}  // namespace varde::agent
