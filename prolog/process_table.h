// Other processes of the node, named safely: by number and start time together, signalled through a pidfd.
#pragma once

#include "base/handle.h"
#include "base/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace varde::node {

struct process_facts {
    pid_t parent = 0;
    pid_t session = 0;
    uint64_t start_ticks = 0;
    uint64_t cpu_ticks = 0;
    bool zombie = false;
};

// Tells one start of this system from another, whose numbers and start times may be the same.
std::string boot_id();

// Of the text of /proc/PID/stat, whose second field is a name that the process chose.  Pure.
result<process_facts> parse_stat(std::string_view text);

// not_found: there is no such process.
result<process_facts> read_process(pid_t pid);

// A handle on exactly the process that had this number and start time; not_found if it is gone.
result<unique_fd> open_process(pid_t pid, uint64_t start_ticks);

// A handle on whoever has the number; none where nobody does.
unique_fd open_process(pid_t pid) noexcept;

bool send_signal(int process, int signal) noexcept;

// True once the process of the handle has ended.
bool wait_process(int process, int timeout_ms) noexcept;

struct process_name {
    pid_t pid = 0;  // 0: none
    uint64_t start_ticks = 0;

    bool operator==(const process_name&) const = default;
};

// Processes of the session that this process leads or has led.  If somebody else has its number, they are all gone; if
// nobody has it, the session may be a later one of that number, and only processes of `owner` are in the answer.
std::vector<process_name> processes_of_session(const process_name& leader, uid_t owner);

}  // namespace varde::node
