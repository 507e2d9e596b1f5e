// Starts varde-agent as the job's user, in two steps: a process that waits, and the word to go.
//
// Between the two the caller writes the process down (state.json), so that whatever interrupts the prolog, the epilog
// finds it.
#pragma once

#include "base/handle.h"
#include "base/result.h"
#include "prolog/process_table.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace varde::node {

struct agent_plan {
    std::vector<std::string> arguments;    // [0]: absolute path of the program
    std::vector<std::string> environment;  // "NAME=value"; nothing is inherited
    uid_t uid = 0;
    gid_t gid = 0;
};

// What the agent's line without its end says: "" where it is ready, else why it is not.  Whatever the line holds, the
// answer is short and printable.  Pure.
std::string read_ready_line(std::string_view line);

constexpr int agent_listen_fd = 3;
constexpr int agent_ready_fd = 4;

class started_agent {
public:
    // Forks the process: session, limits and identity of its own.  It gets `listener` as descriptor 3.
    static result<started_agent> fork_waiting(const agent_plan& plan, unique_fd listener);

    const process_name& process() const noexcept { return process_; }

    // Lets it become the agent.  The caller ignores SIGPIPE: the process may be dead.
    result<void> go();

    // What its line says (read_ready_line).  timeout: it said nothing.
    result<std::string> wait_ready(int timeout_ms);

private:
    process_name process_;
    unique_fd gate_;
    unique_fd ready_;
};

}  // namespace varde::node
