// The helper's three steps: look, free, start.
#include "epilog/controller/helper.h"

#include "base/clock.h"

#include <algorithm>
#include <thread>

namespace varde::controller {

namespace {

constexpr size_t witnesses_max = 16;

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// The job, asked again while Slurm does not answer.  none: it is gone, or there is no answer.
std::optional<job_facts> ask(const requeue& what, const slurm_tools& slurm, const helper_limits& limits,
                             const deadline& until, const sink& log) {
    for (int failures = 1;; failures++) {
        auto job = slurm.job(what.job);
        if (job) return std::move(*job);
        if (failures >= limits.failures_max || until.passed()) {
            log("couldn't ask for the job: " + job.error().context);
            return std::nullopt;
        }
        sleep_ms(limits.poll_ms);
    }
}

fate fate_of(const std::optional<job_facts>& job) { return job ? fate_of(*job, wall_ns() / ns_per_s) : fate::ended; }

// Still in clean-up: it may yet turn out to be requeued.
bool seems_ended(const std::optional<job_facts>& job) {
    return job && fate_of(job) == fate::ended && job->state.find("COMPLETING") != std::string::npos;
}

bool contains(const std::vector<sight>& all, sight what) {
    return std::find(all.begin(), all.end(), what) != all.end();
}

// Somebody must answer, else it may be us who are cut off: then no node is to blame.  Nodes of the job, else others
// of the cluster.
bool somebody_answers(const slurm_tools& slurm, const std::vector<std::string>& tried, uint16_t port,
                      const helper_limits& limits) {
    auto all = slurm.nodes("");
    if (!all) return false;
    std::erase_if(*all, [&](const node_facts& node) {
        return is_down(node) || is_changing_power(node) ||
               std::find(tried.begin(), tried.end(), node.name) != tried.end();
    });
    if (all->size() > witnesses_max) all->resize(witnesses_max);
    // One that accepts is enough; a refusal comes from a living machine, too, but is no proof of a working Slurm
    // network.
    probe_limits quick = limits.probe;
    quick.refused_ms = quick.silent_ms;
    return contains(look_at(*all, port, quick), sight::answered);
}

// Nodes of the job that are dead, by our own look; those that were not DOWN are now.
std::vector<std::string> free_from_dead_nodes(const requeue& what, const slurm_tools& slurm,
                                              const helper_limits& limits, const sink& log) {
    const auto port = slurm.slurmd_port();
    const auto nodes = slurm.nodes(what.node_list);
    if (!port || !nodes) {
        log("couldn't ask for the job's nodes: " + (port ? nodes.error() : port.error()).context);
        return {};
    }
    std::vector<std::string> dead;
    std::vector<node_facts> asked;
    std::vector<std::string> tried;
    for (const node_facts& node : *nodes) {
        if (is_down(node)) dead.push_back(node.name);
        // Slurm knows of its silence, and has an end to it of its own.
        else if (!is_changing_power(node)) asked.push_back(node);
        tried.push_back(node.name);
    }
    const auto seen = look_at(asked, *port, limits.probe);
    std::vector<std::string> silent;
    std::vector<std::string> unknown;
    for (size_t i = 0; i < asked.size(); i++) {
        if (seen[i] == sight::silent) silent.push_back(asked[i].name);
        if (seen[i] == sight::unknown) unknown.push_back(asked[i].name);
    }
    if (!unknown.empty()) log("couldn't look at " + join(unknown) + ": no address is known, or no socket is left");
    if (silent.empty()) return dead;
    if (!contains(seen, sight::answered) && !somebody_answers(slurm, tried, *port, limits)) {
        log("no slurmd answers at all, nothing is set DOWN; is this host cut off?");
        return dead;
    }
    const auto done = slurm.set_down(silent, "varde: slurmd does not answer, job " + what.job + " requeued");
    log(done ? "set " + join(silent) + " DOWN: slurmd does not answer"
             : "couldn't set " + join(silent) + " DOWN: " + done.error().context);
    dead.insert(dead.end(), silent.begin(), silent.end());
    return dead;
}

void set(const requeue& what, const slurm_tools& slurm, const std::string& assignment, const sink& log) {
    const auto done = slurm.update_job(what.job, assignment);
    log(done ? "set " + assignment : "couldn't set " + assignment + ": " + done.error().context);
}

// In the comment, or where that is the user's, in Extra, if this Slurm has it.
bad_nodes what_agents_say(const requeue& what, const slurm_tools& slurm, const std::string& comment,
                          const std::vector<std::string>& nodes) {
    if (comment.empty() || comment.starts_with("varde: ")) return named_bad(comment, nodes);
    const auto extra = slurm.extra(what.job);
    return extra ? named_bad(*extra, nodes) : bad_nodes{};
}

// What the job's own agents say of nodes, for the administrator: they are left out, and not touched otherwise.
void tell_of(const requeue& what, const slurm_tools& slurm, const bad_nodes& bad, const sink& log) {
    if (bad.why != "failing") return;  // a dead node's state says it
    for (const std::string& name : bad.names) {
        log(name + " is left out of the next start: ranks fail first there, again and again");
        const auto now = slurm.nodes(name);
        const bool free = now && now->size() == 1 && (now->front().comment.empty() || now->front().comment == "varde:");
        if (!free) continue;  // the administrator's words stay
        const auto done = slurm.set_node_comment(name, "varde: ranks fail first here, says job " + what.job);
        if (!done) log("couldn't set the comment of " + name + ": " + done.error().context);
    }
}

// Nobody releases a job that Slurm holds.
void release(const requeue& what, const slurm_tools& slurm, const std::string& why, const sink& log) {
    const auto done = slurm.release(what.job);
    log(done ? why + ": released" : why + ", and couldn't be released: " + done.error().context);
}

// Slurm puts a requeued job's start off when the last of the nodes and of its own hooks is done with it, and who set
// the start before that has set nothing.  And it holds a job for ever that cannot run on what is left of the cluster.
// So it is looked at again, until it runs.  A node on which it starts may have died before, idle, and Slurm not have
// missed it: then it would wait for that node.
void keep_start(const requeue& what, const slurm_tools& slurm, const std::string& excluded_before,
                const helper_limits& limits, const deadline& until, const sink& log) {
    for (int looks = 0; looks < limits.start_looks && !until.passed(); looks++) {
        sleep_ms(limits.start_look_ms);
        const auto nodes = slurm.running_on(what.job);
        if (nodes && !nodes->empty()) {
            free_from_dead_nodes({what.job, *nodes}, slurm, limits, log);
            return;
        }
        const auto reason = slurm.pending_reason(what.job);
        if (!reason || reason->empty()) return;
        if (*reason == "BeginTime") {
            log("Slurm has put the job's start off again");
            set(what, slurm, "StartTime=now", log);
        } else if (*reason == "BadConstraints") {
            set(what, slurm, "ExcNodeList=" + excluded_before, log);
            release(what, slurm, "the job cannot run without the nodes that were left out", log);
        } else if (*reason == "launch_failed_requeued_held") {
            release(what, slurm, "Slurm held the job because a node did not start it", log);
        }
    }
}

// In this order: a job that runs takes no ExcNodeList any more.
void start_now(const requeue& what, const slurm_tools& slurm, const job_facts& job, const std::vector<std::string>& bad,
               const helper_limits& limits, const deadline& until, const sink& log) {
    if (!bad.empty()) {
        const std::string list = join(bad);
        set(what, slurm, "ExcNodeList=" + (job.excluded.empty() ? list : job.excluded + "," + list), log);
    }
    sleep_ms(limits.forget_ms);
    // A newer Slurm may let it start without a delay (requeue_delay, --requeue=expedite).
    const auto started = slurm.running_on(what.job);
    if (!started || started->empty()) set(what, slurm, "StartTime=now", log);
    keep_start(what, slurm, job.excluded, limits, until, log);
}

}  // namespace

void help(const requeue& what, const slurm_tools& slurm, const helper_limits& limits, const sink& log) {
    const auto until = deadline::in_ms(static_cast<uint64_t>(limits.total_ms));
    auto job = ask(what, slurm, limits, until, log);
    // Between a requeue and the end of the batch script's own clean-up, Slurm shows the end of the start that is over.
    for (int looks = 0; looks < limits.end_looks && seems_ended(job); looks++) {
        sleep_ms(limits.end_look_ms);
        job = ask(what, slurm, limits, until, log);
    }
    if (fate_of(job) == fate::ended) return;
    const auto nodes = slurm.expand(what.node_list);
    if (!nodes) {
        log("couldn't read the job's node list: " + nodes.error().context);
        return;
    }
    std::vector<std::string> bad = free_from_dead_nodes(what, slurm, limits, log);
    std::erase_if(
        bad, [&](const std::string& name) { return std::find(nodes->begin(), nodes->end(), name) == nodes->end(); });
    const bad_nodes named = what_agents_say(what, slurm, job->comment, *nodes);
    for (const std::string& name : named.names)
        if (std::find(bad.begin(), bad.end(), name) == bad.end()) bad.push_back(name);
    tell_of(what, slurm, named, log);
    for (;;) {
        job = ask(what, slurm, limits, until, log);
        const fate now = fate_of(job);
        if (now == fate::pending) start_now(what, slurm, *job, bad, limits, until, log);
        if (now != fate::completing) return;
        if (until.passed()) {
            log("gave up waiting for the job to be pending, it starts when Slurm lets it");
            return;
        }
        sleep_ms(limits.poll_ms);
    }
}

}  // namespace varde::controller
