// Choice and retention: see selection.h.
#include "store/selection.h"

namespace varde::store {

namespace {

constexpr unsigned reasons_named_max = 3;

}  // namespace

bool candidates::take(const generation& of) {
    const bool in_question = before_ == nullptr || of.id < *before_;
    if (in_question && of.status == generation_status::complete) return true;
    if (of.status == generation_status::damaged && ++damaged_count_ <= reasons_named_max)
        reasons_ += (reasons_.empty() ? "" : "; ") + generation_name(of.id) + ": " + of.reason;
    return false;
}

failure candidates::none(const std::string& run_path) const {
    if (damaged_count_ > 0)
        return fail(code::damaged, "no complete checkpoint is left in '" + run_path + "' (" + reasons_ + ")");
    if (before_ != nullptr)
        return fail(code::damaged,
                    "no complete checkpoint in '" + run_path + "' is older than " + generation_name(*before_));
    return fail(code::not_found, "no checkpoint was completed in '" + run_path + "' so far");
}

bool retention::wants(const generation& of) const noexcept {
    return of.status == generation_status::complete && kept_.size() < keep_;
}

void retention::take(const generation& of, bool wanted) {
    if (wanted && of.status == generation_status::complete) {
        kept_.push_back(of.id);
        // Those are unfinished and newer than one that stays: they may still be in writing.
        superfluous_.clear();
    } else if (!wanted && (of.status == generation_status::complete || of.status == generation_status::incomplete)) {
        superfluous_.push_back(of.id);
    }
}

std::vector<generation_id> retention::superfluous() const {
    if (kept_.empty()) return {};
    return {superfluous_.rbegin(), superfluous_.rend()};
}

}  // namespace varde::store
