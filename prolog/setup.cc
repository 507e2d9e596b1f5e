// Directory, memory, control group, socket, agent: in this order, each undone by the epilog.
#include "prolog/setup.h"

#include "base/units.h"
#include "config/config.h"
#include "prolog/agent_start.h"
#include "prolog/arena.h"
#include "prolog/cgroup.h"
#include "prolog/directory_probe.h"
#include "prolog/log.h"
#include "prolog/plan.h"
#include "prolog/slurm_host.h"
#include "prolog/storage_network.h"

#include <cstdlib>
#include <filesystem>
#include <fcntl.h>
#include <syslog.h>
#include <unistd.h>

namespace varde::node {

namespace {

// The agent's own code and buffers, beside the arena.
constexpr uint64_t overhead_bytes = 512ULL << 20;

// A file system that is well has answered the probe by then.
constexpr int probe_soon_ms = 200;

agent_plan plan_agent(const job_directory& directory, const request& job, const config& site, const state& made,
                      const places& where) {
    agent_plan plan;
    const std::string id = std::to_string(job.job_id);
    plan.arguments = {where.agent,
                      "--listen-fd",
                      std::to_string(agent_listen_fd),
                      "--ready-fd",
                      std::to_string(agent_ready_fd),
                      "--job",
                      id,
                      "--restart-count",
                      std::to_string(job.restart_count),
                      "--arena-bytes",
                      std::to_string(made.arena_bytes),
                      "--slurm-bin",
                      find_bin_directory(site.bin_dir),
                      "--config",
                      where.config,
                      "--max-restarts",
                      std::to_string(job.wish.max_restarts.value_or(site.max_restarts))};
    if (job.wish.final_exits)
        plan.arguments.insert(plan.arguments.end(), {"--final-exits", format_exit_codes(*job.wish.final_exits)});
    if (made.planned) plan.arguments.insert(plan.arguments.end(), {"--plan", directory.path() + "/" + plan_name});
    if (made.huge_page_bytes != 0)
        plan.arguments.insert(plan.arguments.end(), {"--huge-pages", std::to_string(made.huge_page_bytes)});
    plan.environment = {"PATH=/usr/bin:/bin", "SLURM_JOB_ID=" + id};
    if (!job.user.empty()) plan.environment.insert(plan.environment.end(), {"USER=" + job.user, "LOGNAME=" + job.user});
    // slurmd's words, not the user's.  The node's name is how the agents speak of each other to Slurm.
    for (const char* name : {"SLURM_CONF", "SLURMD_NODENAME"})
        if (const char* value = std::getenv(name)) plan.environment.push_back(std::string(name) + "=" + value);
    plan.uid = job.uid;
    plan.gid = job.gid;
    return plan;
}

// This very start's own work, found again and alive.
bool is_done(const state& before, const result<request>& asked) {
    return asked && before.ready && before.uid == asked->uid && before.restart_count == asked->restart_count &&
           agent_alive(before);
}

// A node that is degraded by us has no socket: nobody is to wait for an agent that answers no more.
void remove_socket(const job_directory& directory) {
    if (::unlinkat(directory.fd(), socket_name, 0) != 0 && errno != ENOENT)
        log_line(LOG_WARNING,
                 os_error(errno, "couldn't remove '" + directory.path() + "/" + socket_name + "'").context);
}

// Ends what an earlier start of the job has left: its epilog was interrupted, or never ran.  An agent that does not end
// holds the job's memory and control group: no second one beside it, and `made` goes on naming it.
result<void> clean(const job_directory& directory, const state& before, state& made, stop_function stop) {
    if (!end_left_probe(before)) log_line(LOG_WARNING, held_probe_line(before));
    const auto stopped = stop(before, 0);
    if (!stopped) {
        made.agent_pid = before.agent_pid;
        made.agent_start_ticks = before.agent_start_ticks;
        made.cgroup = before.cgroup;
        remove_socket(directory);
        return fail(stopped.error().what, "the agent of an earlier start is left: " + stopped.error().context);
    }
    // Its record must stay while its pages are there.
    if (auto arena = tear_down_arena(directory); !arena) return arena;
    const auto cleared = directory.clear();
    if (!cleared) log_line(LOG_WARNING, cleared.error().context);
    return {};
}

// Best effort: an agent in slurmd's group works as well, it is only charged to slurmd.
void enter_own_cgroup(const request& job, state& made) {
    discard(hold_tasks(job.job_id, made.agent_pid),
            "then what leaves the agent's session is held by the memory's group");
    const auto group = make_cgroup(job.job_id, made.arena_bytes + overhead_bytes);
    const auto entered = group ? enter_cgroup(job.job_id, made.agent_pid) : group;
    made.cgroup = entered.has_value();
    if (entered) return;
    made.cgroup_reason = entered.error().context;
}

// From the process that waits to the line that it says.  `made` is on disk before the process may do anything.
result<void> run_agent(const job_directory& directory, const request& job, const config& site, const places& where,
                       state& made) {
    auto listener = directory.listen(job.uid, job.gid);
    if (!listener) return std::move(listener).error();
    auto agent = started_agent::fork_waiting(plan_agent(directory, job, site, made, where), std::move(*listener));
    if (!agent) return std::move(agent).error();
    made.agent_pid = agent->process().pid;
    made.agent_start_ticks = agent->process().start_ticks;
    made.reason = "the prolog was interrupted";
    enter_own_cgroup(job, made);
    auto written = write_state(directory, made);
    if (!written) return written;  // the process ends by itself when its gate closes
    auto gone = agent->go();
    if (!gone) return gone;
    auto said = agent->wait_ready(static_cast<int>(site.ready_ms));
    if (!said) return std::move(said).error();
    made.ready = said->empty();
    made.reason = *said;
    return {};
}

// One truth for library and people: a node that is degraded by us has no agent that comes up later, and no socket.
void take_down(const job_directory& directory, state& made, stop_function stop) {
    remove_socket(directory);
    made.ready = false;
    const auto stopped = stop(made, 0);
    // The next prolog of the job, or its epilog, needs the name to try again.
    if (!stopped) return log_line(LOG_WARNING, stopped.error().context);
    made.agent_pid = 0;
    made.agent_start_ticks = 0;
    made.cgroup = false;
    if (tear_down_arena(directory)) made.huge_page_bytes = 0;
}

// Links are known once the probe has followed them; of a file system that hangs, the path itself has to do.
result<void> look_at_network(const request& job, const config& site, const places& where, directory_probe& probe,
                             state& made) {
    if (made.directory.empty()) return {};
    const auto& view = probe.wait(probe_soon_ms);
    const std::string path = view && !view->real_path.empty()
                                 ? view->real_path
                                 : std::filesystem::path(made.directory).lexically_normal().string();
    made.storage = check_network(site.storage, path, job, where.run_directory);
    if (made.storage.problem.empty() || site.storage.policy != storage_policy::require) return {};
    return fail(code::unavailable, "storage.policy is 'require', and " + made.storage.problem +
                                       "; the job starts without the prolog's agent, the library's own one takes the "
                                       "way that there is; put the route right, or set storage.policy to 'route'");
}

result<void> try_set_up(const job_directory& directory, const request& job, const result<config>& site,
                        const places& where, directory_probe& probe, state& made) {
    if (!site) return site.error();
    auto arena = set_up_arena(directory, job, *site, made);
    if (!arena) return arena;
    // The probe has answered by now where it will, so this waits for nothing.
    auto way = look_at_network(job, *site, where, probe, made);
    if (!way) return way;
    return run_agent(directory, job, *site, where, made);
}

}  // namespace

state set_up(const result<request>& asked, uint32_t job_id, const places& where, stop_function stop) {
    state made;
    made.job_id = job_id;
    made.boot = boot_id();
    auto directory = job_directory::create(where.run_directory, job_id);
    if (!directory) {
        made.reason = directory.error().context;
        return made;
    }
    const state before = known_state(*directory, job_id);
    if (is_done(before, asked)) return before;
    if (asked) {
        made.uid = asked->uid;
        made.restart_count = asked->restart_count;
    }
    auto done = clean(*directory, before, made, stop);
    if (done && !asked) done = asked.error();
    if (done) {
        const auto site = load_config(where.config);
        // It answers, or does not, while the agent starts.
        auto probe = directory_probe::begin(*asked, made);
        done = try_set_up(*directory, *asked, site, where, probe, made);
        if (!done) take_down(*directory, made, stop);
        probe.finish(*asked, static_cast<int>((site ? site->probe_s : config{}.probe_s) * 1000), made);
    }
    if (!done) made.reason = done.error().context;
    const auto written = write_state(*directory, made);
    if (!written) log_line(LOG_ERR, written.error().context);
    return made;
}

}  // namespace varde::node
