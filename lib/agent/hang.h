// A hang: no rank of the run makes a step, though all nodes are alive and none says why it should not.
//
// Pure logic, like leader.h: what the nodes say comes in, the verdict goes out.  The evidence is collected in
// hanging.cc.
#pragma once

#include "agent/leader.h"
#include "agent/rank_process.h"

#include <cstdint>
#include <span>
#include <string>

namespace varde::agent {

// How long training has stood still.  Only time in which the roster was read counts, so that storage that hangs, and
// the ranks with it, is no hang; nor does it begin before the first step after a start has been made.
class hang_clock {
public:
    // `timeout_ns`: 0, never a hang; `gap_ns`: the most that counts between two views.
    hang_clock(uint64_t timeout_ns, uint64_t gap_ns) : timeout_ns_(timeout_ns), gap_ns_(gap_ns) {}

    void observe(const view& what, uint64_t silence_ns);
    bool hung() const noexcept { return timeout_ns_ > 0 && stood_ns_ >= timeout_ns_; }
    uint64_t stood_ns() const noexcept { return stood_ns_; }

private:
    uint64_t timeout_ns_;
    uint64_t gap_ns_;
    uint64_t stood_ns_ = 0;
    uint64_t seen_ns_ = 0;
    uint64_t steps_ = 0;  // the sum of what the nodes say: grows with any step of any rank that is first or last
};

// One rank of this node, looked at twice.
struct rank_look {
    uint32_t rank = 0;
    pid_t pid = 0;
    uint64_t step = 0;     // 0: it has not begun, or has announced something else than steps
    bool gone = false;     // its process has ended without closing the run
    bool left = false;     // it has closed the run
    rank_process process;  // as it is now
    uint64_t used_ns = 0;  // of the processor, between the two looks
    bool stores = false;   // it may wait for storage: what it saved is being written, or its slab is full
};

// Why no step is to be expected of these ranks.
store::lull lull_of(std::span<const rank_look> ranks) noexcept;

// What speaks against a rank, from nothing to the strongest.  The numbers are in the roster.
enum class suspicion : uint32_t {
    none = 0,
    waits = 1,     // and so do all ranks of this node
    computes = 2,  // and so do all ranks of this node
    differs = 3,   // the one that computes where the others wait, or waits where the others compute
    blocked = 4,   // waits in the kernel for a device or a file system
    stopped = 5,   // by a signal, and the others are not
    ended = 6,     // its process is gone
};
struct suspect {
    suspicion how = suspicion::none;
    uint32_t rank = 0;
    uint64_t step = 0;
    std::string text;  // "rank 3 (pid 71, step 41) is stopped by a signal"
};
// Of this node's ranks; `look_ns` is the time between the looks.
suspect suspect_of(std::span<const rank_look> ranks, uint64_t look_ns);

// Of all nodes, from their answers in the roster: the index of the node whose suspect has stopped first, nullopt where
// no rank stands out.
std::optional<uint32_t> first_to_stop(std::span<const sighting> nodes);

}  // namespace varde::agent
