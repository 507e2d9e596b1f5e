// What a varde_run pointer points to: one page of its own, which the kernel clears in children of fork().
//
// So a child sees a handle without a session and touches nothing of its parent's; varde_due costs no more for it.
#pragma once

#include "client/run.h"

#include <mutex>
#include <string>
#include <sys/types.h>

namespace varde::client {

// One call at a time: two threads in one run are a mistake, but not one to crash a training for.
struct session {
    std::mutex calls;
    std::unique_ptr<run> what;
    std::string error_text;
};

}  // namespace varde::client

struct varde_run {
    varde::client::progress_page progress;
    varde::client::session* session = nullptr;
    pid_t owner = 0;

    // Null where no memory is left.
    static varde_run* make() noexcept;
    // Gives the page back; the session must be gone.
    void discard_page() noexcept;
    // A child after fork(); where the kernel (before 4.14) cannot clear the page, the process number tells.
    bool forked() const noexcept;
};
