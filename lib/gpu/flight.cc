// Starting and landing.
#include "gpu/flight.h"

namespace varde::gpu {

void flight::note(result<void> outcome) {
    if (outcome_) outcome_ = std::move(outcome);
}

// Goes to the context of `by`, with a marker to land on: what cannot be waited for is not started.
bool flight::board(device& by) {
    if (!outcome_) return false;
    if (at_ == &by) return true;
    inside_.reset();
    at_ = nullptr;
    bool known = false;
    for (size_t i = 0; i < leg_count_; i++) known = known || legs_[i].by == &by;
    if (!known) {
        auto end = by.take();
        if (!end) {
            note(std::move(end).error());
            return false;
        }
        legs_[leg_count_++] = {&by, *end};
    }
    inside_.emplace(all_.driver(), by.context());
    if (inside_->entered() != cuda::success) {
        note(gpu_error(all_.driver(), by.ordinal(), "cuCtxPushCurrent", inside_->entered()));
        return false;
    }
    at_ = &by;
    return true;
}

void flight::to_host(device& by, std::byte* target, const std::byte* source, uint64_t size_bytes) {
    if (!board(by)) return;
    const auto why = by.copy_to_host(target, source, size_bytes);
    if (why != cuda::success) note(gpu_error(all_.driver(), by.ordinal(), "cuMemcpyDtoHAsync", why));
}

void flight::to_device(device& by, std::byte* target, const std::byte* source, uint64_t size_bytes) {
    if (!board(by)) return;
    const auto why = by.copy_to_device(target, source, size_bytes);
    if (why != cuda::success) note(gpu_error(all_.driver(), by.ordinal(), "cuMemcpyHtoDAsync", why));
}

result<void> flight::land() {
    inside_.reset();
    at_ = nullptr;
    const auto until = deadline::in_ms(all_.patience_ms());
    // All are marked before one is waited for: the GPUs work side by side.
    std::array<bool, devices_max> marked{};
    for (size_t i = 0; i < leg_count_; i++) {
        auto outcome = legs_[i].by->mark(legs_[i].end);
        marked[i] = outcome.has_value();
        note(std::move(outcome));
    }
    for (size_t i = 0; i < leg_count_; i++) {
        auto ended = marked[i] ? legs_[i].by->await(legs_[i].end, until) : result<void>();
        if (!ended && ended.error().what == code::timeout) all_.drift();
        else legs_[i].by->give_back(legs_[i].end);
        note(std::move(ended));
    }
    leg_count_ = 0;
    return std::move(outcome_);
}

}  // namespace varde::gpu
