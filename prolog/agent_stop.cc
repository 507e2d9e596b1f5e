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

// Whoever is left of the session.  A process may fork while we look, so look until none is left.
result<void> kill_session(const process_name& leader) {
    const auto until = deadline::in_ms(kill_ms);
    for (;;) {
        const auto left = processes_of_session(leader);
        for (const process_name& each : left) {
            const auto process = open_process(each.pid, each.start_ticks);
            if (process) send_signal(process->get(), SIGKILL);
        }
        if (left.empty()) return {};
        if (until.passed()) {
            return fail(code::timeout, std::to_string(left.size()) +
                                           " processes of the agent survived SIGKILL for 2 s, process " +
                                           std::to_string(left.front().pid) + " for one; storage may hang");
        }
        ::usleep(5'000);
    }
}

}  // namespace

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
    // Whatever the state says of it: a state that was damaged says nothing.  Before the session, because there nobody
    // can fork any more.
    auto removed = remove_cgroup(what.job_id, kill_ms);
    const auto ended = what.agent_pid > 0 ? kill_session({what.agent_pid, what.agent_start_ticks}) : result<void>();
    if (!removed) return std::move(removed).error();
    if (!ended) return ended.error();
    return outcome;
}

}  // namespace varde::node
