// Whole things divided in proportion to weights.  Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace varde::topo {

// `total` split by largest remainder, ties to the first: the parts sum up to it, and none is a whole unit away from its
// exact share.  Weights sum up to less than 2^32; where all are 0 they count as equal.  There is at least one.
std::vector<uint64_t> split(uint64_t total, std::vector<uint64_t> weights);

}  // namespace varde::topo
