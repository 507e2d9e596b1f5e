// Whether this node reaches Slurm's controller while training stands still.
//
// A node that is cut off from the others may still reach the storage: its slot lives on, its ranks wait for messages
// that do not come, and nobody looks dead.  So while training stands every agent asks the controller now and then; one
// that gets no answer says so in its slot, and the leader, if its own questions are answered meanwhile, takes that node
// for lost.  Pure: time comes in.
#pragma once

#include <cstdint>

namespace varde::agent {

// Questions and answers over so long make it true: a restart of slurmctld or one lost packet does not.
constexpr uint64_t contact_proof_ns = 15'000'000'000;

class contact {
public:
    // true: ask now, and tell the answer.  `others_doubt`: another node says that it is cut off.
    bool ask(uint64_t now_ns, bool stands_still, bool others_doubt) noexcept;
    void answered(bool reached, uint64_t now_ns) noexcept;

    // For how long questions have gone without an answer, 0 where the last was answered.
    uint64_t cut_off_ns(uint64_t now_ns) const noexcept;
    // For how long all questions have been answered, one after the other.
    uint64_t reached_ns() const noexcept;

private:
    bool under_way_ = false;
    bool reached_ = true;
    uint64_t since_ns_ = 0;  // first of the present row of like answers; 0: none yet
    uint64_t last_ns_ = 0;
};

}  // namespace varde::agent
