// The life of a step, from its start to the next one's.
#include "cli/supervisor.h"

#include "base/clock.h"
#include "client/connect.h"
#include "store/history.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace varde::cli {

namespace {

constexpr uint64_t find_again_ns = ns_per_s;
// What is staged is worth a wait: writing it takes a node minutes at the very most, and loading waits for it anyway.
constexpr uint64_t drain_wait_ns = 600 * ns_per_s;
constexpr uint64_t answer_wait_ns = 30 * ns_per_s;  // of storage, for a question
constexpr int job_asks_max = 3;
constexpr uint64_t job_again_ns = 2 * ns_per_s;
// The leader needs its own verdict first, then `scontrol requeue` and Slurm's signals.
constexpr uint64_t requeue_wait_ns = 120 * ns_per_s;
constexpr std::array ending_signals{SIGTERM, SIGINT, SIGHUP};
constexpr std::array other_signals{SIGUSR1, SIGUSR2, SIGQUIT, SIGCONT};

std::string join(const std::vector<std::string>& names) {
    std::string all;
    for (const auto& name : names) all += (all.empty() ? "" : ",") + name;
    return all;
}

// Blocks the signals, in this thread and those that it starts from now on.
unique_fd take_over_signals() {
    sigset_t all;
    sigemptyset(&all);
    for (const int number : ending_signals) sigaddset(&all, number);
    for (const int number : other_signals) sigaddset(&all, number);
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
    return unique_fd(::signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK));
}

}  // namespace

supervisor::supervisor(run_settings with, console to)
    : with_(std::move(with)), to_(to), slurm_(with_.slurm_bin, with_.job_id), signals_(take_over_signals()) {}

void supervisor::say(const std::string& text) const {
    fmt::print(to_.err, "varde run: {}\n", text);
    std::fflush(to_.err);
}

int supervisor::run() {
    for (;;) {
        if (auto started = start_step(); !started) {
            say(started.error().context);
            return 127;
        }
        watch_step();
        const step_end end = facts_of_end();
        const choice next = choose_move(end);
        if (!next.why.empty()) say(next.why);
        if (next.what == next_move::finish) return exit_status();
        if (next.what == next_move::requeue) return leave_to_requeue();
        restart_step(end);
        if (stopped_) return exit_status();
    }
}

// ---- A step's start and end

result<void> supervisor::start_step() {
    std::vector<std::string> arguments{with_.arguments[0]};
    arguments.insert(arguments.end(), place_.begin(), place_.end());
    arguments.insert(arguments.end(), with_.arguments.begin() + 1, with_.arguments.end());
    std::vector<std::pair<std::string, std::string>> variables{{"SLURM_VARDE_RUN", std::to_string(with_.job_id)}};
    if (restarts_ > 0) {
        // The job's restarts and ours share one budget; and --ckpt-restart was about the first start.
        for (const char* prefix : {"VARDE_", "SLURM_VARDE_"}) {
            variables.emplace_back(std::string(prefix) + "MAX_RESTARTS",
                                   std::to_string(with_.max_restarts - restarts_));
            variables.emplace_back(std::string(prefix) + "RESTART", "auto");
        }
    }
    auto started = child::start(arguments, variables);
    if (!started) return started.error();
    srun_ = std::move(*started);
    number_.reset();
    roster_ = nullptr;
    progress_.reset();
    sight_ = {};
    step_serial_++;
    return {};
}

// Until it has ended, or nodes of it are dead, or we are told to end and srun has followed.
void supervisor::watch_step() {
    while (!srun_->ended()) {
        if (!number_) find_step();
        look();
        pump(with_.pulse_ns);
        if (number_ && !sight_.dead.empty() && !stopped_) break;
    }
    stopped_wall_ns_ = wall_ns();
}

void supervisor::find_step() {
    if (finding_) return;
    finding_ = true;
    asking_.post([this, serial = step_serial_, pid = srun_->pid()] {
        auto found = slurm_.find(pid, with_.host);
        if (!found) ::usleep(find_again_ns / 1000);
        main_.post([this, serial, found] {
            finding_ = false;
            if (!found || serial != step_serial_) return;
            number_ = found->number;
            nodes_ = found->nodes;
            const std::string launch = "slurm " + std::to_string(with_.job_id) + "." +
                                       std::to_string(with_.restart_count) + "." + std::to_string(*number_);
            rosters_.push_back(
                std::make_unique<roster_watch>(with_.directory, with_.name, launch, with_.silence_ns, with_.pulse_ns));
            roster_ = rosters_.back().get();
        });
    });
}

void supervisor::look() {
    if (looking_ || roster_ == nullptr || mono_ns() - looked_ns_ < with_.pulse_ns) return;
    looking_ = true;
    looked_ns_ = mono_ns();
    storage_.post([this, serial = step_serial_, roster = roster_] {
        auto seen = roster->look();
        main_.post([this, serial, seen] {
            looking_ = false;
            if (serial != step_serial_) return;
            if (seen) {
                sight_ = *seen;
                fresh_looks_++;
            } else if (!std::exchange(storage_told_, true)) {
                say("couldn't look at the run: " + seen.error().context + "; the step goes on, trying again");
            }
        });
    });
}

int supervisor::exit_status() {
    if (!srun_->ended()) srun_->pass_on(SIGKILL);
    const auto until = deadline::in_ms(1000);
    while (!srun_->ended() && !until.passed()) ::usleep(10'000);
    return srun_->ended().value_or(128 + SIGKILL);
}

// ---- Waiting

void supervisor::take_signals() {
    signalfd_siginfo about{};
    while (::read(signals_.get(), &about, sizeof about) == static_cast<ssize_t>(sizeof about)) {
        const int number = static_cast<int>(about.ssi_signo);
        const bool ends = std::find(ending_signals.begin(), ending_signals.end(), number) != ending_signals.end();
        if (ends) stopped_ = true;
        // A terminal has sent it to srun, too, and two of them mean something else to srun.
        if (about.ssi_code != SI_KERNEL && srun_) srun_->pass_on(number);
    }
}

void supervisor::pump(uint64_t most_ns) {
    std::array<pollfd, 3> waited{pollfd{signals_.get(), POLLIN, 0}, pollfd{main_.fd(), POLLIN, 0},
                                 pollfd{srun_->ended() ? -1 : srun_->fd(), POLLIN, 0}};
    if (::poll(waited.data(), waited.size(), static_cast<int>(most_ns / ns_per_ms)) < 0 && errno != EINTR) return;
    take_signals();
    if (waited[1].revents != 0) main_.run();
}

void supervisor::pump_until(uint64_t most_ns, bool (supervisor::*reached)() const) {
    const auto until = deadline::in_ms(most_ns / ns_per_ms);
    while (!until.passed() && !stopped_ && !(this->*reached)()) {
        look();
        pump(with_.pulse_ns);
    }
}

// ---- What has happened

step_end supervisor::facts_of_end() {
    step_end end;
    end.exit_status = srun_->ended();
    end.budget = {with_.restart_count + restarts_, with_.max_restarts};
    end.final_exits = with_.final_exits;
    end.dead = sight_.dead;
    end.stopped = stopped_;
    const bool good = end.exit_status && *end.exit_status == 0;
    if (stopped_ || good) return end;
    if (!end.dead.empty())
        say("node " + join(end.dead) + " is silent and training has stopped at step " +
            std::to_string(sight_.last.step));
    else say("the step has failed with exit code " + std::to_string(*end.exit_status));
    ask_job(end);
    if (end.job_state == "RUNNING" && number_) {
        find_dead(end);
        if (end.dead.empty()) find_progress(end);
    }
    end.stopped = stopped_;
    return end;
}

void supervisor::ask_job(step_end& end) {
    for (int asked = 0; asked < job_asks_max && !stopped_; asked++) {
        const auto facts = slurm_.job().job();
        if (facts) {
            end.job_state = facts->restarts == with_.restart_count ? facts->state : "requeued";
            return;
        }
        say(facts.error().context);
        pump_until(job_again_ns, &supervisor::is_told_to_end);
    }
}

// Of the step's nodes, those that nothing can be started on; and whether there are enough without them.
void supervisor::find_dead(step_end& end) {
    auto usable = slurm_.usable_nodes(end.dead);
    if (!usable) return say("couldn't learn which nodes are left: " + usable.error().context);
    for (const step_node& node : nodes_) {
        const bool there = std::find(usable->begin(), usable->end(), node.host) != usable->end();
        const bool known = std::find(end.dead.begin(), end.dead.end(), node.host) != end.dead.end();
        if (!there && !known) end.dead.push_back(node.host);
    }
    usable_ = std::move(*usable);
    auto next = replace_nodes(nodes_, usable_);
    end.enough_nodes = next.has_value();
    if (!next) return say(next.error().context);
    place_ = place_options(*next, usable_);
    nodes_ = std::move(*next);
}

// A generation of which all is staged may still be on its way to storage.
void supervisor::find_progress(step_end& end) {
    fresh_looks_ = 0;
    pump_until(drain_wait_ns, &supervisor::is_drained);
    if (roster_ == nullptr) return;
    storage_.post([this, serial = step_serial_, roster = roster_] {
        auto found = roster->has_progress();
        main_.post([this, serial, found] {
            if (serial == step_serial_) progress_ = found;
        });
    });
    pump_until(answer_wait_ns, &supervisor::knows_progress);
    if (!progress_) return say("storage does not answer whether there is a new generation");
    if (!*progress_) return say(progress_->error().context);
    end.progress = **progress_;
}

// ---- What comes of it

// Before the old step is ended: from here on the leader leaves the job alone.
void supervisor::tell_restart(const step_end& end, const std::string& reason, const std::string& onto) {
    const auto event = [&](const char* name, uint64_t when_ns) {
        return store::history_event{name, when_ns, 0, with_.job_id, with_.restart_count, with_.host, {}, {}};
    };
    auto failed = event("step_failed", stopped_wall_ns_);
    failed.texts = {{"cause", end.dead.empty() ? store::cause::application : store::cause::node},
                    {"hosts", join(end.dead)},
                    {"how", "exit code " + std::to_string(end.exit_status.value_or(0))}};
    failed.numbers = {{"step", sight_.last.step},
                      {"complete_step", sight_.complete_step},
                      {"last_step_wall_ns", sight_.last.wall_ns}};
    auto restarted = event(store::restarted_in_place, wall_ns());
    restarted.texts = {{"reason", reason}, {"hosts", join(end.dead)}, {"onto", onto}};
    restarted.numbers = {{"nodes", nodes_.size()}, {"complete_step", sight_.complete_step}};
    // Where srun still runs the leader has told of the silence.
    storage_.post([roster = roster_, failed, restarted, tell_failure = end.exit_status.has_value()] {
        if (tell_failure) discard(roster->tell(failed), "stderr has it");
        discard(roster->tell(restarted), "stderr has it; the leader waits for the next start, then requeues the job");
    });
}

void supervisor::restart_step(const step_end& end) {
    std::vector<std::string> hosts;
    for (const step_node& node : nodes_) hosts.push_back(node.host);
    const std::string reason = end.dead.empty() ? "the step failed with exit code " + std::to_string(*end.exit_status)
                                                : "node " + join(end.dead) + " is dead";
    tell_restart(end, reason, join(hosts));
    if (number_) {
        if (auto done = slurm_.kill_step(*number_); !done) say(done.error().context);
    }
    fresh_looks_ = 0;
    if (sight_.draining) pump_until(drain_wait_ns, &supervisor::is_drained);
    if (!srun_->ended()) {
        srun_->pass_on(SIGKILL);  // with a dead node it would wait for Slurm's own time-out
        const auto until = deadline::in_ms(1000);
        while (!srun_->ended() && !until.passed()) pump(10 * ns_per_ms);
    }
    if (stopped_) return;
    restarts_++;
    say(reason + ": started again in place on " + join(hosts) + " (restart " +
        std::to_string(with_.restart_count + restarts_) + " of at most " + std::to_string(with_.max_restarts) + ")");
    asking_.post([job = slurm_.job(), text = "varde: " + reason + ", restarted in place"] {
        discard(job.comment(text), "stderr has it");
    });
}

// The agents requeue the job as without us, and Slurm ends this process with it.
int supervisor::leave_to_requeue() {
    if (!with_.batch) {
        say("there is no batch script to requeue: start the training again by hand");
        return exit_status();
    }
    auto agent =
        client::connect_to("/run/varde/" + std::to_string(with_.job_id) + "/agent.sock", deadline::in_ms(1000));
    auto told = agent ? arena::send_all(agent->get(), arena::frame_of(arena::no_nodes{}), {}, 1000)
                      : result<void>(agent.error());
    if (!told)
        say("couldn't tell this node's agent: " + told.error().context + "; the leading agent acts a little later");
    pump_until(requeue_wait_ns, &supervisor::is_told_to_end);
    return exit_status();
}

}  // namespace varde::cli
