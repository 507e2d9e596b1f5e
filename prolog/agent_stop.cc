// The end of an agent.
#include "prolog/agent_stop.h"

#include "base/clock.h"
#include "prolog/cgroup.h"
#include "prolog/process_table.h"

#include <csignal>
#include <unistd.h>

namespace varde::node {

namespace {

// A SIGKILLed process ends at once unless the kernel holds it, for instance in storage that hangs.
constexpr int kill_ms = 2'000;

uint64_t used_ticks(const std::vector<process_name>& processes) {
    uint64_t sum = 0;
    for (const process_name& each : processes)
        if (const auto facts = read_process(each.pid)) sum += facts->cpu_ticks;
    return sum;
}

}  // namespace

result<void> end_session(const process_name& leader, uid_t owner, int timeout_ms) {
    auto until = deadline::in_ms(static_cast<uint64_t>(timeout_ms));
    auto left = processes_of_session(leader, owner);
    uint64_t ticks = used_ticks(left);
    for (; !left.empty(); left = processes_of_session(leader, owner)) {
        for (const process_name& each : left) {
            const auto process = open_process(each.pid, each.start_ticks);
            if (process) send_signal(process->get(), SIGKILL);
        }
        if (until.passed()) {
            const uint64_t now = used_ticks(left);
            if (now <= ticks)
                return fail(code::timeout, std::to_string(left.size()) +
                                               " processes of the agent survived SIGKILL for 2 s, process " +
                                               std::to_string(left.front().pid) + " for one; storage may hang");
            ticks = now;
            until = deadline::in_ms(static_cast<uint64_t>(timeout_ms));
        }
        ::usleep(5'000);
    }
    return {};
}

bool agent_alive(const state& what) { return open_process(what.agent_pid, what.agent_start_ticks).has_value(); }

result<stop_outcome> stop_agent(const state& what, int drain_ms) {
    stop_outcome outcome = stop_outcome::gone;
    const auto agent = open_process(what.agent_pid, what.agent_start_ticks);
    if (agent) {
        outcome = stop_outcome::killed;
        // SIGCONT: one that is stopped would not see it.
        if (drain_ms > 0 && send_signal(agent->get(), SIGTERM) && send_signal(agent->get(), SIGCONT) &&
            wait_process(agent->get(), drain_ms))
            outcome = stop_outcome::drained;
    }
    // Before the session, because nobody can fork any more then.
    kill_cgroup(what.job_id);
    const auto ended =
        what.agent_pid > 0 ? end_session({what.agent_pid, what.agent_start_ticks}, what.uid, kill_ms) : result<void>();
    // Whatever the state says of it: a state that was damaged says nothing.
    auto removed = remove_cgroup(what.job_id, kill_ms);
    if (!removed) return std::move(removed).error();
    if (!ended) return ended.error();
    return outcome;
}

}  // namespace varde::node
