// Who am I: this process's rank, node and start, from what the launcher left in the environment.
//
// torchrun's numbers win over an MPI launcher's, an MPI launcher's over Slurm's, because each may have been started
// by the next.  What the caller gives wins over all.  Pure: the environment and the facts about the process come in,
// so tests make their own.  Any thread.
#pragma once

#include "base/options.h"
#include "base/result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace varde::client {

// -1: not known.
struct place_numbers {
    int64_t rank = -1;
    int64_t world = -1;
    int64_t local_rank = -1;
    int64_t local_count = -1;
    int64_t node_index = -1;
    int64_t node_count = -1;
};

struct place {
    uint32_t rank = 0;
    uint32_t world = 1;
    uint32_t local_rank = 0;
    uint32_t local_count = 1;
    uint32_t node_index = 0;
    uint32_t node_count = 1;
    std::string launch;  // the same on all ranks of one start, another for another start
};

// A process of this machine, told from a later one that got the same number.
struct process_mark {
    uint64_t id = 0;
    uint64_t start_ticks = 0;
};
struct process_facts {
    std::string host;
    process_mark self;
    process_mark parent;
};
process_facts facts_of_this_process();

result<place> find_place(const place_numbers& given, std::string_view given_launch, environment get,
                         const process_facts& facts);

// Ranks of node `node_index` from Slurm's form "2(x2),1": two on each of two nodes, one on the third.
result<uint32_t> tasks_of_node(std::string_view tasks_per_node, uint64_t node_index);

}  // namespace varde::client
