// A simulated agent.
#include "node_agent.h"

#include "simulation.h"

#include <algorithm>
#include <tuple>

namespace varde::simulate {

using store::choice_kind;
using store::outcome;
using store::phase;
using store::verdict;
using agent::restart;
using agent::view;

namespace {

constexpr uint64_t agent_start_ns = 2 * ns_per_s;  // prolog, and the ranks' first words
constexpr uint64_t batch_wait_ns = 8 * ns_per_s;   // the plugin's patience

agent::leader_options options_of(const plan& with) {
    return {.interval_ns = with.interval_ns, .lead_ns = 3 * with.pulse_ns, .mtbf_ns = 0};
}

}  // namespace

node_agent::node_agent(simulation& in, start& of, uint32_t index)
    : in_(in), of_(of), index_(index), host_(of.hosts[index]), schedule_(options_of(in.with)) {
    mine_.node_index = index;
    mine_.node_count = in.with.node_count;
    mine_.launch = of.launch;
    mine_.job_id = of.job_id;
    mine_.job_restarts = of.job_restarts;
    mine_.host = "n" + std::to_string(host_);
    mine_.now = phase::opening;
}

bool node_agent::is_settled() const noexcept {
    return stage_ == stage::training && works_.empty() && !armed_open_ && !committing_ && !call_ && !batch_exit_;
}

void node_agent::beat(uint64_t now_ns) {
    if (fenced_ || !in_.storage_answers(host_, now_ns)) return;
    if (stage_ == stage::refused || (mine_.incarnation == 0 && !open(now_ns))) return;
    if (in_.run_storage.newest_claim() > mine_.incarnation && in_.with.made != mistake::no_fence) return fence(now_ns);
    in_.held.hold(in_.run_storage.newest_claim() <= mine_.incarnation + 1 || now_ns < of_.begun_ns + 60 * ns_per_s,
                  now_ns,
                  "an agent of incarnation " + std::to_string(mine_.incarnation) + " works on while " +
                      std::to_string(in_.run_storage.newest_claim()) + " has been claimed");
    mine_.step_min = mine_.step_max = stage_ == stage::training ? of_.step_of(index_, now_ns) : 0;
    write(now_ns);
    read(now_ns);
    const auto said = [this] {
        return std::tuple(mine_.proposed_step, mine_.choice_attempt, mine_.confirmed_attempt, mine_.verdict_attempt,
                          mine_.complete_step, mine_.now);
    };
    const auto before = said();
    decide(now_ns);
    if (said() != before) write(now_ns);  // as node::beat(): what others wait for is said at once
}

// Node 0 claims the incarnation, the others take it over from its slot.
bool node_agent::open(uint64_t now_ns) {
    if (now_ns < of_.begun_ns + agent_start_ns) return false;
    if (index_ == 0) {
        const auto* there = in_.run_storage.read(0, now_ns);
        // Another job's slots are watched for some seconds in production: here it is known whether that job trains.
        const bool refused = there != nullptr && (agent::is_later_start(*there, mine_) || there->job_id > mine_.job_id);
        if (refused && in_.with.made != mistake::take_back) {
            stage_ = stage::refused;
            return false;
        }
        mine_.incarnation = of_.incarnation = in_.run_storage.claim();
        in_.held.note(now_ns, "incarnation " + std::to_string(mine_.incarnation) + " of " + of_.launch);
    } else {
        make_room();
        agent::look_again(seen_[0], in_.run_storage.read(0, now_ns), {of_.launch, 0}, now_ns, in_.with.pulse_ns);
        if (!seen_[0].seen || seen_[0].slot.incarnation == 0) return false;
        mine_.incarnation = seen_[0].slot.incarnation;
    }
    stage_ = stage::choosing;
    mine_.now = phase::choosing;
    return true;
}

void node_agent::fence(uint64_t now_ns) {
    fenced_ = true;
    if (!works_.empty() || leading_)
        in_.held.note(now_ns, mine_.host + " of incarnation " + std::to_string(mine_.incarnation) + " is fenced");
    abandon();
    committing_.reset();
}

void node_agent::abandon() {
    for (const auto& one : works_) in_.run_storage.abandon_pack(own(one.step), index_);
    works_.clear();
}

void node_agent::write(uint64_t now_ns) {
    mine_.sequence = ++sequence_;
    make_room();
    if (in_.with.write_loss > 0 && in_.of.chance(in_.with.write_loss)) return;
    const bool delayed = in_.with.write_delay > 0 && in_.of.chance(in_.with.write_delay);
    in_.run_storage.write(mine_, delayed ? now_ns + in_.of.pick(1, 15) * ns_per_s : 0);
}

// leader_of() goes from node 0 to the first that is not silent; only who leads knows more.
void node_agent::make_room() {
    const auto silent = [this](const auto& one) { return agent::is_silent(one, in_.with.silence_ns); };
    while (seen_.size() < index_ && std::all_of(seen_.begin(), seen_.end(), silent)) seen_.emplace_back();
    const bool leads =
        index_ == 0 || (seen_.size() >= index_ && std::all_of(seen_.begin(), seen_.begin() + index_, silent));
    if (leads && seen_.size() < in_.with.node_count) seen_.resize(in_.with.node_count);
}

void node_agent::read(uint64_t now_ns) {
    const uint32_t count = agent::slots_to_read({now_ns, index_, seen_}, in_.with.silence_ns);
    for (uint32_t index = 0; index < count; index++) {
        if (index == index_) continue;
        agent::look_again(seen_[index], in_.run_storage.read(index, now_ns), {of_.launch, mine_.incarnation}, now_ns,
                          in_.with.pulse_ns);
    }
    make_room();
    self_.seen = true;
    self_.slot = mine_;
    if (seen_.size() > index_) seen_[index_] = self_;
}

// As node::on_seen().
void node_agent::decide(uint64_t now_ns) {
    const view what{now_ns, index_, seen_};
    const uint32_t leader = agent::leader_of(what, in_.with.silence_ns);
    const bool leads = leader == index_;
    if (leads && !leading_ && index_ != 0) in_.held.note(now_ns, mine_.host + " leads now");
    leading_ = leads;
    // Its own step is as new as its leader's; that leader's slot is not looked at again for this.
    schedule_.observe(leading_ ? what : view{now_ns, index_, {&self_, 1}});
    if (leading_) lead_start(what);
    if (stage_ == stage::choosing) follow_choice(leading_ ? mine_ : seen_[leader].slot, now_ns);
    if (stage_ == stage::training) {
        if (leading_) lead_generations(what);
        follow_generation(leading_ ? mine_ : seen_[leader].slot, now_ns);
        save_and_seal(now_ns);
        commit(now_ns);
    }
    if (leading_) watch(what);
    mine_.drain_busy = works_.empty() ? 0 : 1;
}

// ---- The start

void node_agent::lead_start(const view& what) {
    if (stage_ != stage::choosing) return;
    if (!restart_) {
        restart_.emplace();
        for (const auto& other : what.nodes) {
            if (other.seen) restart_->continue_after(other.slot.choice_attempt);
        }
    }
    const auto wish = restart_->next(what);
    if (wish != restart::wish::nothing) {
        after_damage_ = wish == restart::wish::mark_and_choose;
        chosen_ns_ = what.now_ns + in_.of.pick(0, 2000) * ns_per_ms;  // reading the run's directory
    }
    if (chosen_ns_ != 0 && what.now_ns >= chosen_ns_) choose(what.now_ns);
    const auto& choice = restart_->current();
    mine_.choice_attempt = choice.attempt;
    mine_.choice = choice.kind;
    mine_.choice_step = choice.id.step;
    mine_.choice_incarnation = choice.id.incarnation;
    mine_.confirmed_attempt = restart_->confirmed_attempt();
}

void node_agent::choose(uint64_t now_ns) {
    chosen_ns_ = 0;
    const auto before = restart_->current().id;
    if (after_damage_) {
        in_.run_storage.mark_damaged(before);
        in_.on_damaged();
        in_.held.note(now_ns, store::generation_name(before) + " is damaged: " + restart_->damage());
    }
    const auto found = in_.run_storage.choose(after_damage_ ? &before : nullptr, now_ns);
    if (found) restart_->offer(choice_kind::generation, found->id, "");
    else if (found.error().what == code::not_found && !after_damage_) restart_->offer(choice_kind::fresh, {}, "");
    else restart_->offer(choice_kind::refused, {}, found.error().context);
    in_.held.note(now_ns, mine_.host + " chooses " + (found ? store::generation_name(found->id) : "none") +
                              ", attempt " + std::to_string(restart_->current().attempt));
}

void node_agent::follow_choice(const store::slot& leader, uint64_t now_ns) {
    if (leader.choice == choice_kind::none || now_ns < of_.ready_ns) return;
    if (leader.choice == choice_kind::refused) {
        stage_ = stage::refused;
        return in_.on_refused(now_ns, leader.reason);
    }
    if (leader.choice_attempt != followed_attempt_) {
        followed_attempt_ = leader.choice_attempt;
        const bool fresh = leader.choice == choice_kind::fresh;
        loaded_ns_ = now_ns + (fresh ? 0 : in_.of.pick(in_.with.load_ns / 2, in_.with.load_ns * 3 / 2));
        restored_step_ = fresh ? 0 : leader.choice_step;
        mine_.now = fresh ? phase::choosing : phase::loading;
    }
    if (loaded_ns_ != 0 && now_ns >= loaded_ns_) {
        loaded_ns_ = 0;
        const bool damaged = restored_step_ != 0 && in_.of.chance(in_.with.damage);
        mine_.verdict_attempt = followed_attempt_;
        mine_.loaded = damaged ? verdict::damaged : verdict::loaded;
        mine_.reason = damaged ? "a chunk" : "";
        mine_.now = phase::choosing;
    }
    if (leader.confirmed_attempt == followed_attempt_ && mine_.verdict_attempt == followed_attempt_)
        let_go(leader, now_ns);
}

void node_agent::let_go(const store::slot& leader, uint64_t now_ns) {
    stage_ = stage::training;
    mine_.now = phase::training;
    in_.on_trains(of_, {leader.choice_step, leader.choice_incarnation}, now_ns);
}

// ---- Generations

void node_agent::lead_generations(const view& what) {
    if (of_.ranks_alive) {
        if (const auto step = schedule_.propose(what)) {
            in_.held.hold(*step >= of_.step(what.now_ns), what.now_ns, "a step is proposed that has passed");
            in_.held.note(what.now_ns, mine_.host + " proposes step " + std::to_string(*step) + " at " +
                                           std::to_string(of_.step(what.now_ns)));
            mine_.proposed_step = *step;
        }
    }
    for (auto& generation : agent::newly_complete(what, mine_.complete_step)) {
        if (generation.step <= committing_step_ || committing_) continue;
        committing_step_ = generation.step;
        committed_ns_ = what.now_ns + in_.of.pick(0, 3000) * ns_per_ms;
        committing_ = std::move(generation);
    }
}

void node_agent::commit(uint64_t now_ns) {
    if (!committing_ || now_ns < committed_ns_) return;
    const auto id = own(committing_->step);
    in_.held.hold(in_.run_storage.has_all_packs(id), now_ns,
                  store::generation_name(id) + " is committed, and a node does not have it");
    const store::manifest record{"run", id, in_.with.node_count, committing_->packs, now_ns, "0"};
    const auto done = in_.run_storage.commit(record);
    in_.held.hold(done.has_value(), now_ns, store::generation_name(id) + " is committed twice, differently");
    committing_.reset();
    mine_.complete_step = std::max(mine_.complete_step, id.step);
    in_.on_complete(of_, id, now_ns);
    in_.retire(id, now_ns);
}

void node_agent::follow_generation(const store::slot& leader, uint64_t now_ns) {
    if (leader.proposed_step > armed_step_) {
        armed_step_ = leader.proposed_step;
        armed_open_ = true;
        if (of_.step(now_ns) >= armed_step_) {
            armed_open_ = false;
            set_outcome(armed_step_, outcome::late);
            in_.on_late(now_ns);
        }
    }
    mine_.complete_step = std::max(mine_.complete_step, leader.complete_step);
}

void node_agent::save_and_seal(uint64_t now_ns) {
    if (armed_open_ && of_.step(now_ns) >= armed_step_) {
        armed_open_ = false;
        const uint64_t saved_ns = of_.time_of(armed_step_);
        works_.push_back({armed_step_, saved_ns + in_.of.pick(in_.with.drain_ns / 2, in_.with.drain_ns * 3 / 2)});
        set_outcome(armed_step_, outcome::pending);
        in_.run_storage.begin_pack(own(armed_step_), index_);
        if (leading_ && in_.with.made == mistake::retire_early) in_.retire(own(armed_step_), now_ns);
    }
    for (size_t i = 0; i < works_.size();) {
        if (now_ns < works_[i].sealed_ns) {
            i++;
            continue;
        }
        const work done = works_[i];
        works_.erase(works_.begin() + static_cast<ptrdiff_t>(i));
        seal(done, now_ns);
    }
}

void node_agent::seal(const work& of, uint64_t now_ns) {
    if (in_.with.seal_failure > 0 && in_.of.chance(in_.with.seal_failure)) {
        in_.run_storage.abandon_pack(own(of.step), index_);
        set_outcome(of.step, outcome::failed);
        return in_.on_failed(now_ns);
    }
    in_.run_storage.seal_pack(own(of.step), index_, now_ns);
    set_outcome(of.step, outcome::sealed);
}

void node_agent::set_outcome(uint64_t step, outcome how) {
    for (auto& state : mine_.generations) {
        if (state.step != step) continue;
        state.what = how;
        return;
    }
    std::move_backward(mine_.generations.begin(), mine_.generations.end() - 1, mine_.generations.end());
    mine_.generations[0] = {.step = step, .what = how, .bytes_done = 1, .bytes_total = 1, .seal_checksum = step};
}

// ---- Failures

void node_agent::watch(const view& what) {
    if (!in_.with.detection || (stage_ != stage::training && stage_ != stage::choosing)) return;
    auto dead = agent::dead_nodes(what, in_.with.silence_ns, schedule_);
    if (in_.with.made == mistake::silence_alone) {
        for (uint32_t index = 0; index < what.nodes.size(); index++) {
            if (index != index_ && agent::is_silent(what.nodes[index], in_.with.silence_ns)) dead.push_back(index);
        }
    }
    if (dead.empty() || wish_.done()) return;
    if (!wish_.asked()) {
        in_.held.note(what.now_ns, mine_.host + " calls " + std::to_string(dead.size()) + " nodes dead, the first is " +
                                       what.nodes[dead[0]].slot.host);
        in_.on_noticed(of_, what.now_ns);
    }
    request_requeue(what.now_ns);
}

void node_agent::request_requeue(uint64_t now_ns) {
    wish_.ask();
    if (!agent::budget_refusal({of_.job_restarts, in_.with.max_restarts}).empty()) return;
    if (!wish_.begin(now_ns)) return;
    // Each call of scontrol ends within ten seconds or is ended.
    const auto wait_ns = [this] { return in_.of.chance(0.05) ? in_.of.pick(1, 9) * ns_per_s : 200 * ns_per_ms; };
    const uint64_t show_ns = now_ns + wait_ns();
    call_ = call{show_ns, show_ns + wait_ns() + wait_ns(), false};
}

void node_agent::tick(uint64_t now_ns) {
    settle_batch_exit(now_ns);
    if (!call_ || now_ns < call_->show_ns) return;
    const auto end = [this, now_ns](const result<void>& how) {
        wish_.end(how, now_ns);
        call_.reset();
    };
    if (!in_.slurm_answers(host_, now_ns)) return end(fail(code::unavailable, "slurmctld does not answer"));
    if (!call_->may) {
        const auto facts = in_.slurm.facts();
        const uint64_t restarts = in_.with.made == mistake::any_start ? facts.restarts : of_.job_restarts;
        if (const auto may = agent::check_requeue(facts, restarts); !may) return end(may);
        call_->may = true;
    }
    if (now_ns < call_->requeue_ns) return;
    const bool taken = in_.slurm.requeue(now_ns);
    in_.on_requeue(of_, now_ns, taken);
    end(taken ? result<void>() : fail(code::unavailable, "the job is not running"));
}

void node_agent::on_batch_exit(uint64_t now_ns) {
    batch_exit_ = true;
    batch_until_ns_ = now_ns + batch_wait_ns;
}

// As node::settle_batch_exit().
void node_agent::settle_batch_exit(uint64_t now_ns) {
    if (!batch_exit_) return;
    if (wish_.done()) {
        batch_exit_ = false;
        return;
    }
    if (!wish_.asked()) {
        if (!works_.empty() && now_ns < batch_until_ns_ - batch_wait_ns / 2) return;
        uint64_t newest = mine_.complete_step;
        for (const auto& state : mine_.generations) {
            if (state.what == outcome::sealed) newest = std::max(newest, state.step);
        }
        constexpr int exit_of_one = 1 << 8;
        const auto refusal =
            agent::batch_refusal({exit_of_one, newest, restored_step_}, {}, {of_.job_restarts, in_.with.max_restarts});
        if (!refusal.empty() || !in_.with.detection) {
            batch_exit_ = false;
            return in_.on_batch_failed(now_ns, refusal);
        }
        batch_until_ns_ = now_ns + batch_wait_ns;
    }
    if (now_ns >= batch_until_ns_) {
        batch_exit_ = false;
        return in_.on_batch_failed(now_ns, "slurmctld did not answer");
    }
    request_requeue(now_ns);
}

}  // namespace varde::simulate
