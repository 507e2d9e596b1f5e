// Deaths: silent nodes, failed batch scripts, and the requeue that follows.
#include "agent/node.h"

#include "base/clock.h"

#include <algorithm>
#include <cstring>
#include <sys/wait.h>

namespace varde::agent {

namespace {

// A failed batch script's last generation may still be on its way to storage; the plugin waits 20 s for the answer.
constexpr uint64_t batch_wait_ns = 8 * ns_per_s;
// `varde run` sees the silence when the leader does; until it has told what it does it asks Slurm for the nodes that
// are left and tries to reach them.
constexpr uint64_t in_place_wait_ns = 20 * ns_per_s;
constexpr uint64_t look_more_ns = ns_per_s / 5;

bool is_restarted_in_place(const store::run_directory& run, uint64_t incarnation) {
    const auto told = run.read_history();
    return told && std::any_of(told->events.begin(), told->events.end(), [&](const store::history_event& event) {
               return event.incarnation == incarnation && event.name == store::restarted_in_place;
           });
}

// Did the batch script's last failure begin on this node, too?
bool failed_first_before(const store::history& past, const std::string& host) {
    const auto last = std::find_if(past.events.rbegin(), past.events.rend(),
                                   [](const store::history_event& one) { return one.name == "batch_failed"; });
    return last != past.events.rend() && last->text("first_host") == host;
}

}  // namespace

// A node that is cut off from the others but not from the storage looks alive.
void node::keep_contact(const view& now) {
    const bool started = stage_ == stage::training || stage_ == stage::choosing;
    const bool stands = started && slurm_.present() && schedule_->stalled_ns(now.now_ns) >= with_.silence_ns;
    const bool others_doubt = std::any_of(now.nodes.begin(), now.nodes.end(),
                                          [](const sighting& one) { return one.seen && one.slot.cut_off_ns != 0; });
    if (contact_.ask(now.now_ns, stands, others_doubt)) {
        keeper_.post([this] {
            main_.post([this, reached = slurm_.reach().has_value()] { contact_.answered(reached, mono_ns()); });
        });
    }
    const uint64_t cut_off_ns = contact_.cut_off_ns(now.now_ns);
    if (cut_off_ns != 0 && mine_.cut_off_ns == 0)
        log_.warning("training stands still, and Slurm's controller cannot be reached from this node");
    mine_.cut_off_ns = cut_off_ns;
}

void node::watch_nodes(const view& now) {
    if (stage_ != stage::training && stage_ != stage::choosing) return;
    const auto dead = dead_nodes(now, with_.silence_ns, *schedule_, contact_.reached_ns());
    if (dead.empty() || start_.requeue.done()) return;
    std::string names;
    for (const uint32_t index : dead) names += (names.empty() ? "" : ",") + seen_[index].slot.host;
    const bool silent = std::any_of(dead.begin(), dead.end(),
                                    [this](uint32_t index) { return is_silent(seen_[index], with_.silence_ns); });
    const std::string how = silent ? "silent" : "cut off";  // the controller hook reads these words
    if (!start_.requeue.asked() && start_.in_place_until_ns == 0) {
        log_.error("node " + names + " is " + how + " and training has stopped at step " +
                   std::to_string(mine_.step_max));
        interrupted(silent ? "silent" : "cut_off", store::cause::node, {{"hosts", names}});
    }
    if (leave_to_varde_run()) return;
    const uint64_t newest = std::max(mine_.complete_step, start_.restored_step);
    const std::string durable = newest == 0 ? "" : ", step " + std::to_string(newest) + " durable";
    request_requeue("node " + names + " is " + (silent ? "dead" : how),
                    "varde: " + names + " " + how + ", requeued" + durable);
}

// Starting the step again on the nodes that are left is faster than a requeue.  Where `varde run` has died, with the
// batch host or alone, the job is requeued after a while.  Where it has told that it starts the step again its ranks
// may need minutes to come.
bool node::leave_to_varde_run() {
    if (facts_.batch != arena::batch_in_place || start_.in_place_over) return false;
    if (start_.in_place_until_ns == 0) start_.in_place_until_ns = mono_ns() + in_place_wait_ns;
    if (mono_ns() < start_.in_place_until_ns || start_.in_place_asked) return true;
    start_.in_place_asked = true;
    keeper_.post([this, start = start_number_.load(), run = run_, incarnation = mine_.incarnation] {
        const bool told = is_restarted_in_place(*run, incarnation);
        main_.post([this, start, told] {
            if (start == start_number_) start_.in_place_over = !told;
        });
    });
    return true;
}

// The leader's next look does the rest.
result<void> node::on_no_nodes(const arena::frame& what) {
    auto body = arena::decode<arena::no_nodes>(what.payload);
    if (!body) return body.error();
    start_.in_place_over = true;
    return {};
}

void node::request_requeue(const std::string& why, const std::string& comment) {
    const bool first = start_.requeue.ask();
    if (!slurm_.present() || !facts_.batch) {
        if (first) log_.warning(why + "; there is no batch job to requeue, start the training again by hand");
        return;
    }
    if (const auto refusal = budget_refusal(budget()); !refusal.empty()) {
        if (first) {
            log_.error(why + ", not requeued: " + refusal);
            history("not_requeued", {{"reason", refusal}}, {});
            keeper_.post(
                [this, refusal] { discard(slurm_.tell("varde: not requeued: " + refusal), "the log has it"); });
        }
        return;
    }
    if (!start_.requeue.begin(mono_ns())) return;
    keeper_.post([this, why, comment, restarts = with_.restart_count] {
        auto done = slurm_.requeue(restarts, comment);
        main_.post([this, why, done] {
            start_.requeue.end(done, mono_ns());
            if (done) {
                log_.warning(why + ": the job is requeued");
                history("requeued", {{"reason", why}}, {{"complete_step", mine_.complete_step}});
            } else if (start_.requeue.done()) {
                log_.info(why + ", but " + done.error().context);
            } else {
                log_.error(why + ", but the requeue failed: " + done.error().context + "; trying again");
            }
            if (start_.requeue.done()) answer_batch(true);
        });
    });
}

// ---- The batch script has ended: the plugin asks whether the job goes on

result<void> node::on_batch_exit(link& from, const arena::frame& what) {
    varde_batch_exit message{};
    if (what.payload.size() != sizeof message - sizeof message.head)
        return fail(code::invalid, "a batch_exit message has a wrong size");
    std::memcpy(reinterpret_cast<char*>(&message) + sizeof message.head, what.payload.data(), what.payload.size());
    batch_link_ = &from;
    batch_status_ = message.wait_status;
    batch_until_ns_ = mono_ns() + batch_wait_ns;
    batch_decided_ = false;
    batch_requeue_.reset();
    settle_batch_exit();
    return {};
}

void node::answer_batch(bool requeued) {
    if (batch_link_ == nullptr) return;
    varde_batch_answer answer{};
    answer.requeued = requeued ? 1 : 0;
    const std::string_view bytes(reinterpret_cast<const char*>(&answer), sizeof answer);
    batch_link_->send(arena::frame_bytes(arena::message::batch_answer, bytes.substr(sizeof answer.head)));
    batch_link_->closing = true;
    batch_link_ = nullptr;
}

void node::settle_batch_exit() {
    if (batch_link_ == nullptr || batch_decided_) return;
    if (start_.requeue.done()) return answer_batch(true);  // and Slurm has ended the script for that
    if (start_.requeue.asked() && mono_ns() < batch_until_ns_) {
        if (batch_requeue_) request_requeue(batch_requeue_->first, batch_requeue_->second);  // it may have failed
        return;
    }
    const bool failed = !(WIFEXITED(batch_status_) && WEXITSTATUS(batch_status_) == 0);
    if (!failed || start_.requeue.asked()) return answer_batch(false);
    const bool settled = works_.empty() || mono_ns() >= batch_until_ns_ - batch_wait_ns / 2;
    if (!settled || mono_ns() < batch_until_ns_ - batch_wait_ns + look_ns()) return;
    batch_decided_ = true;
    std::string first_host;
    const auto first = first_failed({mono_ns(), mine_.node_index, seen_});
    if (first && facts_.node_count > 1) first_host = seen_[*first].slot.host;
    keeper_.post([this, run = run_, first_host] {
        batch_circumstances found;
        if (const auto facts = slurm_.job()) found.state = facts->state;
        if (!first_host.empty() && run != nullptr) {
            const auto past = run->read_history();
            found.repeated = past && failed_first_before(*past, first_host);
        }
        main_.post([this, first_host, found] { judge_batch_exit(first_host, found); });
    });
}

// Until the other nodes' word on when their ranks ended is here: they write it at once, and the leader looks at its
// next beat.
uint64_t node::look_ns() const noexcept {
    return facts_.node_count > 1 && start_.leading ? with_.pulse_ms * ns_per_ms + look_more_ns : 0;
}

void node::judge_batch_exit(const std::string& first_host, const batch_circumstances& found) {
    const std::string how = ending_of(batch_status_);
    if (!found.state.empty() &&
        found.state != "RUNNING") {  // scancel, the time limit, a requeue: Slurm ended the script
        log_.info("the batch script ended (" + how + "): the job is " + found.state);
        return answer_batch(false);
    }
    // Sealed here is good enough: whether the other nodes have sealed it too is decided by reading, at the restart.
    uint64_t newest = mine_.complete_step;
    for (const auto& one : mine_.generations) {
        if (one.what == store::outcome::sealed) newest = std::max(newest, one.step);
    }
    // A dead node is no failure that would come again.
    const bool dead = start_.in_place_until_ns != 0;
    const std::string refusal =
        dead ? budget_refusal(budget())
             : batch_refusal({batch_status_, newest, start_.restored_step}, with_.final_exits, budget());
    interrupted("batch_failed", store::cause::application,
                {{"how", how}, {"not_requeued", refusal}, {"first_host", first_host}});
    if (!refusal.empty()) {
        log_.error("the batch script failed (" + how + "), the job is not requeued: " + refusal);
        keeper_.post([this, how, refusal] {
            // Before the answer: once the plugin has it the job ends, and an ended job takes no comment.
            discard(slurm_.tell("varde: " + how + ", not requeued: " + refusal), "the log has it");
            main_.post([this] { answer_batch(false); });
        });
        return;
    }
    batch_decided_ = false;
    if (found.repeated) log_.warning("ranks failed first on node " + first_host + ", as the time before");
    const std::string bad = found.repeated ? first_host + " failing, " : "";  // for the controller hook
    batch_requeue_ = {"the batch script failed (" + how + ")",
                      "varde: " + bad + how + ", requeued, step " + std::to_string(newest) + " durable"};
    batch_until_ns_ = mono_ns() + batch_wait_ns;
    request_requeue(batch_requeue_->first, batch_requeue_->second);
    if (!slurm_.present() || !facts_.batch) answer_batch(false);
}

}  // namespace varde::agent
