// Rows of like answers.
#include "agent/contact.h"

namespace varde::agent {

namespace {

constexpr uint64_t doubt_period_ns = 4'000'000'000;  // where somebody is cut off, or seems to be
constexpr uint64_t calm_period_ns = 60'000'000'000;  // a long evaluation must not load the controller
constexpr uint64_t row_gap_max_ns = 15'000'000'000;  // what was between answers farther apart is not known

}  // namespace

bool contact::ask(uint64_t now_ns, bool stands_still, bool others_doubt) noexcept {
    if (under_way_) return false;
    if (!stands_still) {
        reached_ = true;
        since_ns_ = last_ns_ = 0;
        return false;
    }
    const uint64_t period_ns = others_doubt || !reached_ ? doubt_period_ns : calm_period_ns;
    if (last_ns_ != 0 && now_ns - last_ns_ < period_ns) return false;
    under_way_ = true;
    return true;
}

void contact::answered(bool reached, uint64_t now_ns) noexcept {
    under_way_ = false;
    const bool row = last_ns_ != 0 && reached == reached_ && (!reached || now_ns - last_ns_ <= row_gap_max_ns);
    if (!row) since_ns_ = now_ns;
    reached_ = reached;
    last_ns_ = now_ns;
}

uint64_t contact::cut_off_ns(uint64_t now_ns) const noexcept {
    // One more than what has passed: the first question without an answer counts.
    return reached_ || last_ns_ == 0 ? 0 : now_ns - since_ns_ + 1;
}

uint64_t contact::reached_ns() const noexcept { return reached_ && last_ns_ != 0 ? last_ns_ - since_ns_ : 0; }

}  // namespace varde::agent
