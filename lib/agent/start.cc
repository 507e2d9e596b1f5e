// The start of an incarnation: open the run, take (or take over) its number, agree on a generation, load it, let the
// ranks go.
#include "agent/node.h"

#include "base/clock.h"
#include "base/units.h"

#include <algorithm>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace varde::agent {

namespace {

// Another job's roster is watched for so long; a slot that changes meanwhile means that the job is alive.
constexpr uint64_t alive_watch_ms = 4000;
constexpr int alive_look_ms = 500;
constexpr uint64_t life_ns = 60 * ns_per_s;  // the library waits ten minutes for a word
constexpr uint64_t no_ticket = UINT64_MAX;   // of a chunk that is only a sign of life

std::string taken_text(const std::string& by) {
    return "the run is being written by " + by + "; end that job, or give this one another --ckpt-name";
}

// Who else writes this run?  "" where nobody does.
result<std::string> find_other_writer(store::roster& roster, const store::slot& mine) {
    auto first = roster.read(0);
    if (!first) return first.error().what == code::io ? result<std::string>(first.error()) : std::string();
    if (is_later_start(*first, mine))
        return fail(code::fenced,
                    "the job has been restarted since this start of it began (on node '" + first->host + "')");
    const bool same_job = first->job_id != 0 && first->job_id == mine.job_id;
    if (same_job || first->launch == mine.launch)
        return std::string();  // an earlier start of ours: this one takes over
    auto before = roster.read_all(first->node_count);
    const auto alive = [](const result<store::slot>& slot) { return slot && slot->now != store::phase::ended; };
    if (std::none_of(before.begin(), before.end(), alive)) return std::string();
    const auto until = deadline::in_ms(alive_watch_ms);
    while (!until.passed()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(alive_look_ms));
        auto now = roster.read_all(first->node_count);
        for (size_t i = 0; i < now.size(); i++) {
            if (!alive(now[i]) || !before[i] || now[i]->incarnation != first->incarnation) continue;
            if (now[i]->sequence != before[i]->sequence)
                return "'" + now[i]->launch + "' on node '" + now[i]->host + "'";
        }
    }
    return std::string();
}

std::string claim_text(const store::slot& mine) {
    const nlohmann::ordered_json claim{{"launch", mine.launch},
                                       {"job", mine.job_id},
                                       {"host", mine.host},
                                       {"nodes", mine.node_count},
                                       {"wall_ns", wall_ns()}};
    return claim.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

// Node 0 takes the number; a worker that takes over has it already.
result<uint64_t> take_incarnation(store::roster& roster, const store::slot& mine) {
    if (mine.incarnation != 0 || mine.node_index != 0) return mine.incarnation;
    auto other = find_other_writer(roster, mine);
    if (!other) return other.error();
    if (!other->empty()) return fail(code::busy, taken_text(*other));
    return roster.claim_incarnation(claim_text(mine));
}

// Node 0 alone takes the number, and tells of it; so it alone looks.
last_step read_last_step(store::roster& roster, const store::slot& mine) {
    last_step before;
    const auto first = roster.read(0);
    if (mine.incarnation != 0 || mine.node_index != 0 || !first) return before;
    for (const auto& slot : roster.read_all(first->node_count)) {
        if (slot && slot->incarnation == first->incarnation) before.see(*slot);
    }
    return before;
}

void read_steps(std::byte* control, uint32_t ranks, uint64_t& step_min, uint64_t& step_max) {
    step_min = UINT64_MAX;
    step_max = 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const uint64_t step = arena::rank_of(control, rank)->progress_step.load(std::memory_order_relaxed);
        step_min = std::min(step_min, step);
        step_max = std::max(step_max, step);
    }
}

// Of a generation that the leader has seen whole.
result<uint32_t> count_packs(const store::run_directory& run, store::generation_id id) {
    if (const auto record = run.read_manifest(id)) return static_cast<uint32_t>(record->packs.size());
    const auto all = run.list();
    if (!all) return all.error();
    for (const auto& one : *all)
        if (one.id == id) return one.node_count;
    return fail(code::io, "'" + run.path() + "/" + store::generation_name(id) + "' cannot be seen on this node");
}

unique_fd open_log_file(const store::run_directory& run, uint32_t node_index) {
    const std::string directory = run.path() + "/log";
    ::mkdir(directory.c_str(), 0700);
    char name[32];
    ::snprintf(name, sizeof name, "/node-%05u.log", node_index);
    return unique_fd(::open((directory + name).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
}

}  // namespace

void node::open_run() {
    mine_.node_index = facts_.node_index;
    mine_.node_count = facts_.node_count;
    mine_.launch = facts_.launch;
    mine_.host = with_.host;
    mine_.job_id = with_.job_id;
    mine_.job_restarts = with_.restart_count;
    mine_.now = stage_ == stage::training ? store::phase::training : store::phase::opening;
    log_.rename((with_.job_id != 0 ? "job " + std::to_string(with_.job_id) + " " : std::string()) + "node " +
                std::to_string(facts_.node_index));

    if (auto done = read_options(); !done) return refuse_all(code::invalid, done.error().context);
    // By the time of its step a proposal must have been written (one period), read (one more) and seen by the ranks.
    leader_options options{.interval_ns = 0, .lead_ns = 3 * with_.pulse_ms * ns_per_ms, .mtbf_ns = 0};
    if (facts_.interval_s == interval_auto_s)
        options.mtbf_ns = std::max<uint64_t>(with_.node_mtbf_ns / facts_.node_count, 1);
    else options.interval_ns = facts_.interval_s * ns_per_s;
    schedule_ = std::make_unique<schedule>(options);
    hang_clock_ = std::make_unique<hang_clock>(hang_timeout_ns(), 2 * with_.pulse_ms * ns_per_ms);

    keeper_.post([this, start = start_number_.load(), mine = mine_, directory = facts_.directory, name = facts_.name] {
        if (start != start_number_) return;  // its ranks have died; looking for other writers takes seconds
        auto made = open_on_keeper(directory, name, with_.mounts, mine);
        // std::function copies, so what can only be moved travels in a box.
        auto* box = new result<opened_run>(std::move(made));
        main_.post([this, start, box] {
            const std::unique_ptr<result<opened_run>> owned(box);
            if (start == start_number_) opened(std::move(*owned));
        });
    });
}

// The options come as text from the environment of a rank, and are checked like everywhere.
result<void> node::read_options() {
    const std::pair<std::string_view, const std::string&> given[] = {{"KEEP", facts_.keep},
                                                                     {"RESTART", facts_.restart},
                                                                     {"MAX_RESTARTS", facts_.max_restarts},
                                                                     {"HANG_TIMEOUT", facts_.hang_timeout}};
    for (const auto& rule : option_rules()) {
        for (const auto& [variable, text] : given) {
            if (rule.variable != variable || text.empty()) continue;
            if (auto done = apply_option(start_.asked, rule, text); !done) return done;
        }
    }
    return {};
}

result<node::opened_run> node::open_on_keeper(const std::string& directory, const std::string& name,
                                              const std::vector<std::string>& mounts, const store::slot& mine) {
    auto run = store::run_directory::open(directory, name, true);
    if (!run) return run.error();
    run->spread_over(mounts);
    auto roster = run->open_roster(true);
    if (!roster) return roster.error();
    const last_step before = read_last_step(*roster, mine);
    auto incarnation = take_incarnation(*roster, mine);
    if (!incarnation) return incarnation.error();
    unique_fd log_file = open_log_file(*run, mine.node_index);
    auto files = std::make_unique<open_files>(open_files{std::move(*run), std::move(log_file)});
    const bool claimed = mine.incarnation == 0 && mine.node_index == 0;
    return opened_run{std::move(files), std::move(*roster), *incarnation, claimed, before};
}

void node::opened(result<opened_run> made) {
    if (!made) {
        log_.error("couldn't open the run '" + facts_.name + "': " + made.error().context);
        return refuse_all(made.error().what, made.error().context);
    }
    opened_.push_back(std::move(made->files));
    run_ = &opened_.back()->run;
    log_fd_ = opened_.back()->log_file.get();
    if (log_fd_ < 0) log_.warning("couldn't open this node's log in '" + run_->path() + "/log'; syslog has its lines");
    mine_.incarnation = made->incarnation;
    if (made->claimed) tell_start(made->before);
    start_pulse(std::move(made->roster), made->incarnation);
    if (stage_ == stage::opening) stage_ = stage::choosing;
    if (stage_ == stage::choosing) mine_.now = store::phase::choosing;
    put_node_record();
    beat();
    for (auto& work : works_) begin_drain(*work);  // of a worker that takes over
}

void node::start_pulse(store::roster roster, uint64_t incarnation) {
    mine_.incarnation = incarnation;
    pulse_options options;
    options.period_ms = with_.pulse_ms;
    options.quick_period_ms = std::min(options.quick_period_ms, with_.pulse_ms);
    options.silence_ns = with_.silence_ns;
    pulse::handlers call;
    // The pulse of an earlier start says its last word when this one has begun: its slots, and that it is fenced (by
    // this one), are not ours.
    call.seen = [this, start = start_number_.load()](std::vector<sighting> seen) {
        if (start == start_number_) on_seen(std::move(seen));
    };
    call.fenced = [this, start = start_number_.load()](uint64_t newer, const std::string& host) {
        if (start == start_number_) on_fenced(newer, host);
    };
    call.taken = [this, start = start_number_.load()](const std::string& by) {
        if (start == start_number_ && mine_.incarnation == 0) refuse_all(code::busy, taken_text(by));
    };
    call.failed = [this](const failure& why) {
        log_.error("couldn't use the roster: " + why.context + "; training goes on, trying again");
    };
    call.steps = [control = memory_.control.data(), count = facts_.local_count](
                     uint64_t& step_min, uint64_t& step_max) { read_steps(control, count, step_min, step_max); };
    pulse_ = std::make_unique<pulse>(std::move(roster), options, mine_, main_, std::move(call));
}

void node::beat() {
    if (pulse_ == nullptr) return;
    update_progress();
    pulse_->set_slot(mine_);
    pulse_->beat_soon();
}

void node::on_fenced(uint64_t newer, const std::string& host) {
    start_.fenced = true;
    log_.warning("incarnation " + std::to_string(newer) + " of the run has started on " + host + "; this one (" +
                 std::to_string(mine_.incarnation) + ") writes no more");
    for (auto& work : works_) work->job.cancelled = true;
    if (load_ != nullptr) load_->cancel();
    node_control()->fenced = 1;
    tell_news();
    if (stage_ != stage::training) refuse_all(code::fenced, "a newer incarnation of the run has started on " + host);
}

// Once per beat: everything that is decided from the roster.
void node::on_seen(std::vector<sighting> seen) {
    if (start_.fenced || stage_ == stage::refused || stage_ == stage::idle || seen.size() != facts_.node_count) return;
    seen_ = std::move(seen);
    if (mine_.incarnation == 0) {
        if (!seen_[0].seen || seen_[0].slot.incarnation == 0) return;
        mine_.incarnation = seen_[0].slot.incarnation;
        put_node_record();
        beat();
        return;
    }
    read_steps(memory_.control.data(), facts_.local_count, mine_.step_min, mine_.step_max);  // for what is said below
    const view now{mono_ns(), mine_.node_index, seen_};
    const uint32_t leader = leader_of(now, with_.silence_ns);
    const bool leads = leader == mine_.node_index;
    if (leads && !start_.leading && mine_.node_index != 0)
        log_.warning("node " + std::to_string(mine_.node_index) + " leads now: those before it are silent");
    start_.leading = leads;
    schedule_->observe(now);
    keep_contact(now);
    if (start_.leading) lead_start(now);
    const auto& said = start_.leading ? mine_ : seen_[leader].slot;
    if (stage_ == stage::choosing) follow_choice(said);
    if (stage_ == stage::choosing) show_life(now.now_ns);
    if (stage_ == stage::training) {
        if (start_.first_step_seen == 0 && mine_.step_max > start_.restored_step) {
            start_.first_step_seen = mine_.step_max;  // on every node, so that a later leader does not tell it again
            if (start_.leading) history("first_step", {}, {{"step", mine_.step_max}});
        }
        if (start_.leading) lead_generations(now);
        if (start_.leading) tell_progress();
        follow_generation(start_.leading ? mine_ : seen_[leader].slot);
        watch_standstill(now, start_.leading ? mine_ : seen_[leader].slot);
    }
    if (start_.leading) watch_nodes(now);
    update_progress();
    pulse_->set_slot(mine_);
}

// ---- Following the leader's choice (choosing.cc)

void node::follow_choice(const store::slot& leader) {
    if (leader.choice == store::choice_kind::none) return;
    if (leader.choice == store::choice_kind::refused) {
        const auto what = leader.choice_step == 0 ? code::mismatch : static_cast<code>(leader.choice_step);
        return refuse_all(what, leader.reason);
    }
    const bool ready = everyone_present() && std::all_of(ranks_.begin(), ranks_.end(),
                                                         [](const local_rank& rank) { return rank.wants_restore; });
    const auto reserved = node_control()->arena_state.load();
    if (!ready || reserved == arena::reservation::under_way) return;
    if (leader.choice_attempt != start_.followed_attempt && load_ == nullptr) {
        start_.followed_attempt = leader.choice_attempt;
        if (reserved == arena::reservation::failed) {
            loaded(leader.choice_attempt,
                   fail(code::no_memory, "the arena of " + format_bytes(memory_.arena.size_bytes()) +
                                             " could not be reserved on this node; lower --ckpt-memory"));
        } else if (leader.choice == store::choice_kind::fresh) {
            start_.restored_step = 0;
            mine_.verdict_attempt = start_.followed_attempt;
            mine_.loaded = store::verdict::loaded;
            beat();
        } else {
            start_.restored_step = leader.choice_step;
            mine_.now = store::phase::loading;
            const store::generation_id id{leader.choice_step, leader.choice_incarnation};
            keeper_.post([this, start = start_number_.load(), run = run_, id, attempt = start_.followed_attempt] {
                const auto node_count = count_packs(*run, id);
                main_.post([this, start, id, node_count, attempt] {
                    if (start != start_number_) return;
                    if (node_count) start_load(id, *node_count, attempt);
                    else loaded(attempt, node_count.error());
                });
            });
        }
    } else if (leader.choice_attempt != start_.followed_attempt) {
        load_->cancel();  // the leader has walked on; loaded() clears the way
    }
    if (leader.confirmed_attempt == start_.followed_attempt && mine_.verdict_attempt == start_.followed_attempt)
        send_restored(leader);
}

// Ranks that have loaded wait for those of other nodes, and must tell a long wait from a dead agent.
void node::show_life(uint64_t now_ns) {
    if (now_ns - start_.shown_life_ns < life_ns) return;
    start_.shown_life_ns = now_ns;
    for (auto& rank : ranks_) {
        if (rank.wire != nullptr && rank.wants_restore) rank.wire->send_message(arena::restore_chunk{no_ticket, {}});
    }
}

void node::start_load(store::generation_id id, uint32_t saved_node_count, uint64_t attempt) {
    if (stage_ != stage::choosing || attempt != start_.followed_attempt || load_ != nullptr) return;
    load_job job;
    job.id = id;
    job.node_index = facts_.node_index;
    job.node_count = facts_.node_count;
    job.held = held_;
    job.world = facts_.world;
    job.saved_node_count = saved_node_count;
    job.attempt = attempt;
    for (uint32_t rank = 0; rank < ranks_.size(); rank++) {
        const auto slab = slab_of(rank);
        job.targets.push_back({rank, *ranks_[rank].range, memory_.arena.data() + slab.offset, slab.size_bytes});
    }
    load_ = std::make_unique<load>(
        *run_, std::move(job),
        [this](uint32_t rank, const arena::restore_chunk& chunk) {
            main_.post([this, rank, frame = arena::frame_of(chunk)] {
                if (rank < ranks_.size() && ranks_[rank].wire != nullptr) ranks_[rank].wire->send(frame);
            });
        },
        log_);
    mover_.post([this, attempt] {
        auto outcome = load_->carry_out(engine_on_mover());
        main_.post([this, attempt, outcome] { loaded(attempt, outcome); });
    });
}

void node::loaded(uint64_t attempt, const result<void>& outcome) {
    load_.reset();
    if (stage_ != stage::choosing || attempt != start_.followed_attempt) return;
    mine_.verdict_attempt = attempt;
    mine_.now = store::phase::choosing;
    if (outcome) {
        mine_.loaded = store::verdict::loaded;
    } else {
        const auto& why = outcome.error();
        mine_.loaded = why.what == code::damaged    ? store::verdict::damaged
                       : why.what == code::mismatch ? store::verdict::mismatch
                                                    : store::verdict::failed;
        mine_.reason = why.context;
        log_.error("couldn't restore step " + std::to_string(start_.restored_step) + ": " + why.context);
    }
    beat();
}

void node::send_restored(const store::slot& leader) {
    stage_ = stage::training;
    mine_.now = store::phase::training;
    if (leader.choice == store::choice_kind::fresh) start_.restored_step = 0;
    put_node_record();  // first: a rank that was told saves, and a worker that takes over must know that it may
    for (auto& rank : ranks_) {
        if (rank.wire != nullptr) rank.wire->send_message(arena::restored{start_.restored_step, mine_.incarnation});
    }
    log_.info(start_.restored_step == 0 ? "nothing to restore, training starts from the beginning, incarnation " +
                                              std::to_string(mine_.incarnation)
                                        : "restored step " + std::to_string(start_.restored_step) + ", incarnation " +
                                              std::to_string(mine_.incarnation));
    if (start_.leading) history("restored", {}, {{"step", start_.restored_step}, {"nodes", facts_.node_count}});
    beat();
}

}  // namespace varde::agent
