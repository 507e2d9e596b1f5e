// A real varde-agent with an arena of a given size, as the library would start it, and what it costs.
#pragma once

#include "figure.h"

#include <sys/types.h>

namespace varde::bench {

class agent_process {
public:
    // `cpu` -1: any.  The bench becomes the reaper of its orphans, because the agent leaves whoever started it.
    static result<agent_process> start(const settings& with, uint64_t arena_bytes, int cpu);
    ~agent_process();  // kills what is left
    agent_process(agent_process&& other) noexcept;
    agent_process& operator=(agent_process&&) = delete;

    const std::string& socket() const noexcept { return socket_; }
    double cpu_s() const;           // user and system time of its processes so far
    uint64_t memory_bytes() const;  // of its processes, without what they share (the arena)
    // Until it sleeps: the arena is reserved and registered.
    result<void> wait_until_quiet() const;
    // It ends by itself with its last rank.
    result<void> wait_for_end();

private:
    agent_process() = default;
    std::string socket_;
    std::vector<pid_t> processes_;  // the holder, which is our child now, and its worker
};

// Runs `work` on one CPU, and what it starts too; -1 leaves it alone.
result<void> on_cpu(int cpu, const std::function<result<void>()>& work);

}  // namespace varde::bench
