// Daly's formula, and its bounds.
#include "agent/interval.h"

#include <algorithm>
#include <cmath>

namespace varde::agent {

uint64_t daly_interval_ns(uint64_t cost_ns, uint64_t mtbf_ns) noexcept {
    const auto cost = static_cast<double>(cost_ns);
    const auto mtbf = static_cast<double>(mtbf_ns);
    const double share = cost / (2 * mtbf);
    if (share >= 1) return mtbf_ns;
    const double interval = std::sqrt(2 * cost * mtbf) * (1 + std::sqrt(share) / 3 + share / 9) - cost;
    return static_cast<uint64_t>(interval);
}

uint64_t automatic_interval_ns(const checkpoint_cost& cost, uint64_t mtbf_ns) noexcept {
    return std::max({daly_interval_ns(cost.stall_ns, mtbf_ns), cost.drain_ns, automatic_interval_min_ns});
}

}  // namespace varde::agent
