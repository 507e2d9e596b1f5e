// The method of the largest remainder.
#include "topo/shares.h"

#include <algorithm>
#include <numeric>

namespace varde::topo {

std::vector<uint64_t> split(uint64_t total, std::vector<uint64_t> weights) {
    uint64_t sum = std::accumulate(weights.begin(), weights.end(), uint64_t{0});
    if (sum == 0) {
        std::fill(weights.begin(), weights.end(), 1);
        sum = weights.size();
    }
    std::vector<uint64_t> parts;
    std::vector<uint64_t> remainders;
    uint64_t left = total;
    for (const uint64_t weight : weights) {
        // total * weight / sum, in two steps that do not overflow.
        const uint64_t rest = total % sum * weight;
        parts.push_back(total / sum * weight + rest / sum);
        remainders.push_back(rest % sum);
        left -= parts.back();
    }
    for (; left > 0; left--) {
        const auto most = std::max_element(remainders.begin(), remainders.end());
        parts[static_cast<size_t>(most - remainders.begin())]++;
        *most = 0;
    }
    return parts;
}

}  // namespace varde::topo
