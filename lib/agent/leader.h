// What the nodes of a run decide from the roster: who leads, which step is due, what is complete, who has died.
//
// Pure logic: time and slots come in, decisions go out; no I/O, no clock.  So a test (or a simulation) can drive weeks
// of it. Every decision is idempotent or guarded by something that only one can create, because two nodes may for a
// moment both lead.
#pragma once

#include "agent/interval.h"
#include "store/store.h"

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace varde::agent {

// What this node has seen of one node's slot.
struct sighting {
    bool seen = false;  // a slot of this incarnation has been read
    store::slot slot;
    // Time over which the slot was read again and again and had not changed.  Time in which nothing could be read does
    // not count: slow storage is no sign of death.
    uint64_t quiet_ns = 0;
    uint64_t looked_ns = 0;  // when it was last looked at
    bool after_gap = false;  // that was the first look for a while
};

// The newest step that any slot tells of, and when it was reached.
struct last_step {
    uint64_t step = 0;
    uint64_t wall_ns = 0;
    void see(const store::slot& slot) noexcept;
};

// Whose slots count: those of one start.
struct start_identity {
    std::string_view launch;
    uint64_t incarnation = 0;  // 0: not known yet
};

// One more look at a node's slot (null: it has none): a new one of this start, or the node is quiet for longer.
void look_again(sighting& node, const store::slot* read, const start_identity& start, uint64_t now_ns,
                uint64_t period_ns);

struct view {
    uint64_t now_ns = 0;  // monotonic
    uint32_t self = 0;
    std::span<const sighting> nodes;
};

struct leader_options {
    uint64_t interval_ns = 0;  // 0, without mtbf_ns: nobody asks for checkpoints
    uint64_t lead_ns = 0;      // from a proposal to its step: all nodes must have read it by then
    uint64_t mtbf_ns = 0;      // of the job: the interval is computed (interval.h); 0: it is given
};

bool is_silent(const sighting& node, uint64_t silence_ns) noexcept;
// Its slot lives, and says for long enough that it does not reach Slurm's controller (contact.h).
bool is_cut_off(const sighting& node) noexcept;

// The lowest node that is neither silent nor cut off; a node that has not been looked at yet counts as alive.
uint32_t leader_of(const view& what, uint64_t silence_ns) noexcept;

// Whether the run's slot is that of a later start of the same job: then this one was cut off while it began, and its
// claim would fence the one that trains.
bool is_later_start(const store::slot& there, const store::slot& mine) noexcept;

// How many slots, from node 0 on, this node reads in a beat: the leader all, the others those up to the leader's.
uint32_t slots_to_read(const view& what, uint64_t silence_ns) noexcept;

// State of one step on one node, none if its slot does not know it.
store::outcome outcome_of(const store::slot& node, uint64_t step) noexcept;

// ---- When is the next generation due
class schedule {
public:
    explicit schedule(const leader_options& options) : options_(options), lead_ns_(options.lead_ns) {}

    // Call with every view, leader or not, so that a new leader knows the pace.
    void observe(const view& what);
    // The step to propose now, if any.
    std::optional<uint64_t> propose(const view& what);
    uint64_t proposed_step() const noexcept { return proposed_step_; }
    uint64_t due_ns() const noexcept { return due_ns_; }  // when the next step is to be; 0: training has not begun

    uint64_t step_ns() const noexcept;                          // 0: not known yet
    uint64_t stalled_ns(uint64_t now_ns) const noexcept;        // since the last step of any node
    uint64_t stretched() const noexcept { return stretched_; }  // proposals that had to wait for a drain
    // The given one, or the one computed from what checkpoints have cost so far; 0: nobody asks for any.
    uint64_t interval_ns() const noexcept;
    const checkpoint_cost& cost() const noexcept { return cost_; }

private:
    void settle(const view& what);
    bool ready(const view& what);

    leader_options options_;
    uint64_t lead_ns_;
    uint64_t due_ns_ = 0;  // 0: training has not begun
    uint64_t proposed_step_ = 0;
    bool open_ = false;  // the proposal has no outcome yet
    bool waited_ = false;
    uint64_t stretched_ = 0;
    checkpoint_cost cost_;  // of the newest generation: the slowest node's
    uint64_t newest_step_ = 0;
    uint64_t newest_step_ns_ = 0;
    struct sample {
        uint64_t step, at_ns;
    };
    std::deque<sample> samples_;
};

// ---- What is complete: steps sealed by every node and newer than `complete_step`, oldest first
struct sealed_generation {
    uint64_t step = 0;
    std::vector<store::manifest_pack> packs;
};
std::vector<sealed_generation> newly_complete(const view& what, uint64_t complete_step);

// ---- Who has died: silent nodes, while training has stopped.  Both, so that a slow file system alone is no alarm.
// Where this node has reached the controller for long enough, those that are cut off from it count, too.
std::vector<uint32_t> dead_nodes(const view& what, uint64_t silence_ns, const schedule& pace, uint64_t reached_ns = 0);

// The node of which a rank ended first, if the others' came clearly later: clocks differ, and so do agents' looks.
std::optional<uint32_t> first_failed(const view& what) noexcept;

// ---- Which generation all nodes restore
class restart {
public:
    enum class wish { nothing, choose, mark_and_choose };
    struct choice {
        uint64_t attempt = 0;
        store::choice_kind kind = store::choice_kind::none;
        store::generation_id id;
        std::string reason;  // of a refusal, or of the damage to be marked
    };

    // A node that takes over goes on counting where the one before it stopped, so that an attempt's number means one
    // choice.
    void continue_after(uint64_t attempt) noexcept {
        choice_.attempt = attempt > choice_.attempt ? attempt : choice_.attempt;
    }
    // What the leader should do now about the start.
    wish next(const view& what);
    // Answers to `choose`.
    void offer(store::choice_kind kind, store::generation_id id, const std::string& reason);
    const choice& current() const noexcept { return choice_; }
    const std::string& damage() const noexcept { return damage_; }
    uint64_t confirmed_attempt() const noexcept { return confirmed_; }

private:
    choice choice_;
    std::string damage_;
    uint64_t confirmed_ = 0;
    bool asked_ = false;
};

}  // namespace varde::agent
