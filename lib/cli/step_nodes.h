// On which nodes a step is started again, and how srun is told.  Pure; any thread.
//
// A rank should come back on the node that holds its shards in memory.  So whoever is left keeps its ranks, and a spare
// takes those of a dead node.  Slurm deals out ranks in its own order of nodes; where that would move the ranks of a
// node that is left, srun gets one host per rank.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace varde::cli {

struct step_node {
    std::string host;
    std::vector<uint32_t> ranks;  // empty: not known
    bool operator==(const step_node&) const = default;
};

// The nodes of the next step: those of the last one in its order, each that is not usable replaced by a spare.
// `usable` is in Slurm's order.  no_space: there are too few.
result<std::vector<step_node>> replace_nodes(std::span<const step_node> last, std::span<const std::string> usable);

// srun's options for them, to stand before the user's own.
std::vector<std::string> place_options(std::span<const step_node> nodes, std::span<const std::string> usable);

// The option among srun's own (`arguments[0]` is srun) that names nodes, and so would win over ours; "" where none is.
std::string find_node_option(std::span<const std::string> arguments);

// Of `scontrol --oneliner show step JOB`: the number of the step whose srun is this process; not_found.
struct running_step {
    uint32_t number = 0;
    std::string node_list;
};
result<running_step> find_step(std::string_view output, std::string_view host, uint64_t process_id);

// Of `sattach --layout JOB.STEP`: nodes in the order of their first ranks.
result<std::vector<step_node>> parse_layout(std::string_view output);

}  // namespace varde::cli
