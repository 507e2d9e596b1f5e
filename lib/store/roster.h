// The roster: how the nodes of a run meet.  One file of 4096 bytes, a slot, per node; a node writes only its own.
//
// Slots are read and written with O_DIRECT where the file system takes it, reopened per read where it does not, so that
// attribute caches don't lie.  A torn read shows in the checksum and is read again.  A slot is not synced: after a
// power loss nobody wants it.  Blocking I/O: call from a thread that may wait for storage, one thread at a time per
// object.
#pragma once

#include "base/handle.h"
#include "base/result.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace varde::store {

// What a node is doing.  The numbers are on disk.
enum class phase : uint32_t {
    opening = 1,   // ranks are arriving; no incarnation yet
    choosing = 2,  // incarnation known, waiting for the leader's choice
    loading = 3,   // reading the chosen generation
    training = 4,
    ended = 5,  // all ranks closed the run, everything is drained: silence from here on is no alarm
};

enum class outcome : uint32_t { none = 0, pending = 1, sealed = 2, failed = 3, late = 4 };
enum class choice_kind : uint32_t { none = 0, fresh = 1, generation = 2, refused = 3 };
enum class verdict : uint32_t { none = 0, loaded = 1, damaged = 2, mismatch = 3, failed = 4 };

// Why a node expects no step of its ranks at the moment; then no hang is suspected.  The numbers are on disk.
enum class lull : uint32_t {
    none = 0,
    stopped = 1,    // by a signal, all of them: the job is suspended, if it is so on every node
    traced = 2,     // a debugger has one
    unstepped = 3,  // one has not begun (a first step, a restore), has announced something else, or has closed the run
    storage = 4     // a generation is being written, or a slab is full: ranks may wait for that in calls of ours
};

// What became of one generation on one node.
struct generation_state {
    uint64_t step = 0;  // 0: empty
    outcome what = outcome::none;
    uint32_t os_errno = 0;
    uint64_t bytes_done = 0;     // written
    uint64_t bytes_total = 0;    // of the pack once it is sealed, till then of the shards; 0: not known yet
    uint64_t seal_checksum = 0;  // of the sealed pack's seal
    uint64_t bytes_staged = 0;

    bool operator==(const generation_state&) const = default;
};

constexpr size_t generations_in_slot = 4;  // the newest ones, newest first: a reader once a second misses none

struct slot {
    // Who
    uint32_t node_index = 0;
    uint32_t node_count = 0;
    uint64_t incarnation = 0;   // 0 while opening
    std::string launch;         // identity of this start, the same on all its nodes ("slurm 7.1.0")
    std::string host;           // at most 63 bytes
    uint64_t job_id = 0;        // 0: no Slurm
    uint64_t job_restarts = 0;  // of that job, before this start
    // Alive
    uint64_t sequence = 0;  // grows with every write
    uint64_t wall_ns = 0;   // for people only
    phase now = phase::opening;
    uint64_t step_min = 0;  // of the node's ranks
    uint64_t step_max = 0;
    uint64_t step_wall_ns = 0;       // when step_max last grew, for the record of a start that comes after
    uint64_t cut_off_ns = 0;         // for how long it has not reached Slurm's controller, while training stands
    uint64_t rank_gone_wall_ns = 0;  // when the first of its ranks ended without closing the run; 0: none has
    // Generations
    std::array<generation_state, generations_in_slot> generations{};
    uint64_t drain_busy = 0;  // 1 while a generation is being staged or drained
    uint64_t stall_ns = 0;    // the longest of the node's ranks, in their newest generation
    uint64_t stage_ns = 0;    // from the first save to the last staged byte, of the newest generation staged whole
    uint64_t drain_ns = 0;    // from all saves to the seal, of the newest sealed generation
    // As leader
    uint64_t proposed_step = 0;   // 0: none
    uint64_t complete_step = 0;   // newest committed in this incarnation
    uint64_t failed_step = 0;     // newest that some node has given up
    uint64_t hang_asked = 0;      // grows: each node is to say what it sees of a standstill
    uint64_t choice_attempt = 0;  // grows with every choice
    choice_kind choice = choice_kind::none;
    uint64_t choice_step = 0;
    uint64_t choice_incarnation = 0;
    uint64_t confirmed_attempt = 0;  // all verdicts of this attempt are in and good
    // Answer to the leader's choice
    uint64_t verdict_attempt = 0;
    verdict loaded = verdict::none;
    std::string reason;  // of a bad verdict or a refusal, or of the suspicion; at most 511 bytes
    // Answer to hang_asked
    lull quiet = lull::none;
    uint32_t suspicion = 0;  // how sure this node is that its suspect has stopped training; 0: no suspect
    uint32_t suspect_rank = 0;
    uint64_t hang_answered = 0;

    bool operator==(const slot&) const = default;
};

constexpr size_t slot_bytes = 4096;
// Host and reason are cut at a UTF-8 boundary where they are too long; a launch has limits::launch_bytes_max.
void encode_slot(const slot& from, std::array<std::byte, slot_bytes>& to) noexcept;
// damaged: bad magic, version or checksum.
result<slot> decode_slot(const std::array<std::byte, slot_bytes>& from);

class roster {
public:
    // `directory` is an open "<run>/roster".  Makes nothing yet.
    static result<roster> open(unique_fd directory);

    // Writes this node's slot (created where missing) with one write of 4096 bytes.  invalid: no such node, or a launch
    // that the slot cannot hold whole.
    result<void> write(const slot& mine);
    // not_found: that node has not written yet.  damaged: still torn after several reads.
    result<slot> read(uint32_t node_index);
    // Slots of nodes [0, node_count): one entry each, in order.
    std::vector<result<slot>> read_all(uint32_t node_count);

    // Claims the next incarnation: the number is one more than the newest claim, and the claim is a file that only one
    // process can create ("roster/incarnation-00003").  `claim` is its content: JSON for people and for a refused job.
    result<uint64_t> claim_incarnation(const std::string& claim);
    // Newest claimed incarnation, 0 if none; two look-ups when it is `known`.
    result<uint64_t> newest_incarnation(uint64_t known);

private:
    // A slot that stays open: our own, and the one that was read last (the leader's, once a second).
    struct open_slot {
        uint32_t node_index = 0;
        unique_fd fd;
        bool direct = false;
    };
    result<void> open_own(uint32_t node_index);
    result<slot> read_kept(uint32_t node_index);

    unique_fd directory_;
    open_slot own_;
    open_slot kept_;
};

}  // namespace varde::store
