// A child that does one small thing as the user and says what it found: whatever may hang, or may not be done as root.
//
// It has a session of its own and no descriptor but the one it answers by, and it does not outlive the prolog: the
// kernel sends it SIGKILL then.  Held by the kernel all the same, it keeps nothing that anybody waits for.
#pragma once

#include "base/handle.h"
#include "base/result.h"
#include "prolog/process_table.h"

#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>

namespace varde::node {

class user_errand {
public:
    // `work` runs in the child; what it returns, 16 KiB at most, is the answer.
    static result<user_errand> begin(uid_t uid, gid_t gid, const std::function<std::string()>& work);

    user_errand(user_errand&&) = default;
    user_errand& operator=(user_errand&&) = default;
    ~user_errand();

    const process_name& process() const noexcept { return process_; }

    // The answer, as bytes that a user's process has sent; "" if it ended without one; none: no answer yet.
    std::optional<std::string> wait(int timeout_ms);

    // SIGKILL; nothing more is heard of it.  false: the kernel holds it.
    bool end();

private:
    user_errand() = default;

    process_name process_;
    unique_fd answer_;
    std::string text_;
    bool ended_ = false;
};

}  // namespace varde::node
