// The calling thread inside a CUDA context, for the length of a scope: the context that was current comes back.
//
// Meanwhile the thread's stream capture mode is relaxed: calls of ours never disturb a CUDA graph that the program
// captures at that moment, on this thread or another.
#pragma once

#include "gpu/driver.h"

namespace varde::gpu {

class inside {
public:
    inside(const cuda::driver& with, cuda::context where) noexcept : with_(with), entered_(with.context_push(where)) {
        if (entered_ != cuda::success) return;
        relaxed_ = with_.exchange_capture_mode(&mode_) == cuda::success;
    }
    ~inside() {
        if (entered_ != cuda::success) return;
        if (relaxed_) discard(static_cast<int>(with_.exchange_capture_mode(&mode_)), "it was possible before");
        cuda::context left = nullptr;
        discard(static_cast<int>(with_.context_pop(&left)), "what was pushed can be popped");
    }
    inside(const inside&) = delete;
    inside& operator=(const inside&) = delete;

    // Why the context could not be entered; nothing of it may be used then.
    cuda::status entered() const noexcept { return entered_; }

private:
    const cuda::driver& with_;
    unsigned mode_ = cuda::capture_mode_relaxed;
    cuda::status entered_;
    bool relaxed_ = false;
};

}  // namespace varde::gpu
