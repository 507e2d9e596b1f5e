// The agent's logic: this node's ranks, the start of an incarnation, its generations, and what is done when nodes die.
//
// Main loop only.  Whatever waits runs on one of three threads and comes back through the inbox: the pulse (roster),
// the mover (drain and load, one after the other), the keeper (directory, manifest, history, Slurm).  Split by subject:
// node.cc ranks and messages, start.cc from hello to restored, choosing.cc what the leader of a start does,
// generations.cc from save to sealed, committing.cc what all have sealed, watch.cc deaths and requeues,
// hanging.cc hangs, history.cc the record of what happened, recover.cc taking over from a dead worker, ending.cc the
// tick and the end.
#pragma once

#include "agent/contact.h"
#include "agent/drain.h"
#include "agent/hang.h"
#include "agent/leader.h"
#include "agent/ledger.h"
#include "agent/link.h"
#include "agent/load.h"
#include "agent/log.h"
#include "agent/memory.h"
#include "agent/placement.h"
#include "agent/pulse.h"
#include "agent/requeue.h"
#include "agent/slurm.h"
#include "agent/tasks.h"
#include "base/options.h"
#include "topo/cpu_set.h"

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <vector>

namespace varde::agent {

struct settings {
    uint64_t job_id = 0;  // 0: no Slurm
    uint64_t restart_count = 0;
    std::string slurm_bin;  // directory of the running Slurm's scontrol; empty: no Slurm
    std::string host;
    uint64_t chunk_bytes = 0;
    uint64_t pulse_ms = 0;
    uint64_t silence_ns = 0;
    uint64_t node_mtbf_ns = 0;
    std::vector<std::string> mounts;  // for packs; empty: they lie with their run
    uint64_t write_bytes_per_s = 0;   // 0: no limit
    uint32_t keep = 0;                // where the job does not say
    uint32_t max_restarts = 0;
    exit_codes final_exits;         // of the batch script
    uint64_t hang_timeout_s = 0;    // where the job does not say; 0: off
    std::vector<arena_part> parts;  // of the arena, where its NUMA nodes are known
    topo::cpu_set writer_cpus;      // empty: any
    bool embedded = false;          // started by the library: ends with its last rank
};

// From hello to ended, on this node.
enum class stage : uint32_t { idle, opening, choosing, training, refused };

struct local_rank {
    bool present = false;  // has said hello in this start
    bool gone = false;     // its process ended without bye
    bool left = false;     // it said bye
    arena::hello facts;
    pid_t pid = 0;
    link* wire = nullptr;  // null while the connection is lost
    unique_fd process;     // pidfd: a forked child may hold the connection open after the rank's end
    uint64_t ended_ns = 0;
    uint64_t layout_version = 0;
    std::optional<pack::range> range;
    bool wants_restore = false;
    uint64_t next_chunk = 0;  // the chunk at which its next save begins
    uint64_t saved_step = 0;
};

// A generation that the mover has, or will have, to do with: one that is being staged or drained, or one that was
// dropped and whose chunks are let go as they are staged.
struct generation_work {
    uint64_t step = 0;
    std::vector<std::optional<arena::save>> saves;  // per local rank
    std::vector<pack::range> ranges;                // as they were at the save; the drain's, once it has begun
    std::vector<uint64_t> sizes;                    // of these ranges
    bool draining = false;                          // handed to the mover as a pack
    uint32_t discards = 0;                          // handed to the mover as chunks to let go
    uint64_t begun_ns = 0;                          // the first save of a rank
    bool staged = false;                            // all of it
    drain_job job;
};

// What is known of a standstill.
struct hang_state {
    uint64_t answered = 0;    // the newest question of a leader that this node has taken up
    bool collecting = false;  // its answer is under way
    uint64_t asked_ns = 0;    // as leader: since when a question is open
    bool told = false;        // as leader: the verdict is in the history
};

// What belongs to one start and must not reach the next.
struct start_state {
    options asked;           // --ckpt-keep, --ckpt-restart, --ckpt-max-restarts
    arena::refused refusal;  // where the stage is `refused`
    bool fenced = false;
    bool leading = false;
    uint64_t restored_step = 0;
    uint64_t first_step_seen = 0;
    uint64_t followed_attempt = 0;
    uint64_t shown_life_ns = 0;
    uint64_t armed_step = 0;
    bool armed_open = false;  // nothing is known of the armed step yet
    uint64_t committing_step = 0;
    std::set<uint64_t> reported_failures;  // steps, for history.jsonl
    uint64_t told_staged_step = 0;         // likewise
    uint64_t told_ns = 0;                  // the last event
    uint64_t hello_wall_ns = 0;            // the first rank's
    uint64_t stretched_reported = 0;
    uint64_t told_interval_s = 0;
    hang_state hang;
    requeue_wish requeue;
    uint64_t in_place_until_ns = 0;  // nodes are dead, and `varde run` has until then; 0: none is
    bool in_place_asked = false;     // the history, whether it has started the step again
    bool in_place_over = false;      // it cannot or did not: the job is requeued
    uint64_t stop_until_ns = 0;
};

class node {
public:
    node(settings with, node_memory& memory, ledger& records, inbox& main, logger& log);
    ~node();

    // Takes over what an earlier worker knew.
    result<void> recover();

    // From the worker's loop.
    result<void> on_frame(link& from, const arena::frame& what);  // an error ends the connection
    void on_closed(link& from);
    void on_rank_ended(uint32_t local_rank);  // its pidfd
    void on_tick();                           // ten times a second
    void begin_stop();                        // SIGTERM: finish what is staged, then finished() is true
    bool finished() const noexcept { return finished_; }
    std::vector<std::pair<int, uint32_t>> watched_processes() const;            // pidfd, local rank
    uint64_t processes_version() const noexcept { return processes_version_; }  // changes with them
    bool settle_threads(uint64_t timeout_ms);                                   // before the process ends

private:
    // node.cc
    result<void> on_hello(link& from, const arena::hello& facts);
    void answer_late_restore(link& to, uint32_t rank);
    bool is_repeated(const arena::hello& facts) const;
    result<void> check_hello(const arena::hello& facts) const;
    void welcome_rank(link& from, const arena::hello& facts);
    void begin_start(const arena::hello& facts);
    bool start_is_over() const;
    void serve_waiting_hellos();
    result<void> on_layout(uint32_t rank, arena::layout what);
    result<void> on_bye(uint32_t rank);
    void look_for_ended();
    void rank_is_gone(uint32_t rank);
    void refuse(link& to, code what, const std::string& text);
    void refuse_all(code what, const std::string& text);
    bool everyone_present() const;
    bool everyone_done() const;
    arena::rank_control* control_of(uint32_t rank) const { return arena::rank_of(memory_.control.data(), rank); }
    arena::node_control* node_control() const { return arena::node_of(memory_.control.data()); }
    uint64_t chunk_bytes() const;
    arena::slab_place slab_of(uint32_t rank) const;
    void give_slab(uint32_t rank, int numa_node);
    void put_record(record kind, uint32_t rank, const std::string& value);
    void put_node_record();
    void recover_node(const std::string& value);
    const char* what_is_lost(uint32_t rank, const arena::save& save) const;
    result<void> recover_rank(uint32_t rank);

    io::engine& engine_on_mover();

    // start.cc
    void open_run();
    struct open_files {
        store::run_directory run;
        unique_fd log_file;
    };
    struct opened_run {
        std::unique_ptr<open_files> files;
        store::roster roster;
        uint64_t incarnation = 0;
        bool claimed = false;  // by this call: the start is new
        last_step before;      // of the incarnation before it
    };
    result<void> read_options();
    static result<opened_run> open_on_keeper(const std::string& directory, const std::string& name,
                                             const std::vector<std::string>& mounts, const store::slot& mine);
    void opened(result<opened_run> made);
    void start_pulse(store::roster roster, uint64_t incarnation);
    void on_seen(std::vector<sighting> seen);
    void on_fenced(uint64_t newer, const std::string& host);
    void follow_choice(const store::slot& leader);
    void follow_generation(const store::slot& leader);
    void start_load(store::generation_id id, uint32_t saved_node_count, uint64_t attempt);
    void loaded(uint64_t attempt, const result<void>& outcome);
    void send_restored(const store::slot& leader);
    void lead_start(const view& now);
    void choose(bool after_damage);
    void chosen(const result<store::generation>& found);
    void show_life(uint64_t now_ns);
    void beat();

    // generations.cc
    result<void> on_save(uint32_t rank, const arena::save& what);
    result<void> on_give_up(uint32_t rank, const arena::give_up& what);
    generation_work& work_of(uint64_t step);
    void begin_drain(generation_work& work);
    drain_outcome drain_on_mover(generation_work& work);
    void drained(uint64_t step, const drain_outcome& how);
    void note_held(const drain_job& job);
    void drop_work(uint64_t step, store::outcome how, const std::string& why);
    void let_go(generation_work& work, uint32_t rank);
    void forget(generation_work& work);
    void arm(uint64_t step);
    void look_for_late();
    bool passed_by(uint32_t rank, uint64_t step) const;
    void set_outcome(uint64_t step, store::outcome how, const drain_outcome* details, uint64_t bytes);
    store::generation_state* state_of(uint64_t step);
    uint64_t staged_bytes(const generation_work& work) const;
    void update_progress();
    void lead_generations(const view& now);
    void tell_interval();
    void note_complete(uint64_t step);
    void note_failed(uint64_t step);
    void tell_news();
    void report_failures(const view& now);

    // committing.cc
    void commit(const sealed_generation& generation);
    std::vector<store::generation_id> retire_on_keeper(store::run_directory& run, uint32_t keep,
                                                       store::generation_id newest);
    void committed(uint64_t step, const result<void>& outcome, uint64_t commit_ns);
    void unconfirmed(uint64_t step, const failure& why);

    // watch.cc
    void keep_contact(const view& now);
    void watch_nodes(const view& now);
    bool leave_to_varde_run();
    result<void> on_no_nodes(const arena::frame& what);
    void request_requeue(const std::string& why, const std::string& comment);
    result<void> on_batch_exit(link& from, const arena::frame& what);
    void settle_batch_exit();
    uint64_t look_ns() const noexcept;
    struct batch_circumstances {
        std::string state;      // the job's; "" where Slurm does not say
        bool repeated = false;  // the node that failed first now did so the last time, too
    };
    void judge_batch_exit(const std::string& first_host, const batch_circumstances& facts);
    void answer_batch(bool requeued);
    uint32_t keep() const noexcept { return start_.asked.keep.value_or(with_.keep); }
    restart_budget budget() const noexcept {
        return {with_.restart_count, start_.asked.max_restarts.value_or(with_.max_restarts)};
    }

    // hanging.cc
    uint64_t hang_timeout_ns() const;
    std::vector<rank_look> look_at_ranks() const;
    void watch_standstill(const view& now, const store::slot& leader);
    void answer_hang(uint64_t asked);
    void lead_standstill(const view& now);
    void condemn(const view& now);

    // history.cc
    using event_texts = std::vector<std::pair<std::string, std::string>>;
    using event_numbers = std::vector<std::pair<std::string, uint64_t>>;
    void history(const char* event, const event_texts& texts, const event_numbers& numbers);
    // An event that says why training has stopped (store::cause).
    void interrupted(const char* event, const char* why, event_texts texts);
    void tell_start(const last_step& before);
    void tell_progress();
    void tell_staged(const view& now);
    void tell_sealed(const sealed_generation& generation);
    void tell_complete(uint64_t step, uint64_t commit_ns);
    void tell_retired(const std::vector<store::generation_id>& removed);
    void flush_log();

    const uint64_t begun_wall_ns_;  // this process
    settings with_;
    node_memory& memory_;
    ledger& ledger_;
    inbox& main_;
    logger& log_;
    slurm slurm_;

    // The start
    std::atomic<uint64_t> start_number_{
        0};  // what an earlier start still has under way carries its number, and is dropped
    stage stage_ = stage::idle;
    arena::hello facts_;  // what all ranks of this start agree on
    std::vector<local_rank> ranks_;
    std::vector<std::optional<uint32_t>> slabs_;  // per local rank: which slab it has; kept for the next start
    std::deque<std::pair<link*, arena::hello>> waiting_hellos_;  // of a new start, while the old one ends
    uint64_t waiting_since_ns_ = 0;
    start_state start_;
    store::run_directory* run_ = nullptr;              // of this start
    int log_fd_ = -1;                                  // its log file
    std::vector<std::unique_ptr<open_files>> opened_;  // of all starts: tasks of an earlier one may still be under way
    std::unique_ptr<pulse> pulse_;
    std::vector<sighting> seen_;
    store::slot mine_;
    bool stopping_ = false;
    bool finished_ = false;
    uint64_t alone_since_ns_ = 0;
    uint64_t processes_version_ = 1;
    std::unique_ptr<load> load_;
    std::unique_ptr<restart> restart_;  // while leading a start
    std::unique_ptr<schedule> schedule_;
    std::unique_ptr<hang_clock> hang_clock_;

    // Generations
    std::unique_ptr<io::engine> engine_;  // the mover's
    held_generation held_;                // the newest one that was sealed from memory
    bool direct_refused_ = false;  // the mover's: the file system took O_DIRECT at open and refused it at a write
    std::deque<std::unique_ptr<generation_work>> works_;
    std::vector<std::string> left_;  // the keeper's: what it last told of that stays on mounts

    // Deaths
    contact contact_;
    link* batch_link_ = nullptr;
    int batch_status_ = 0;
    uint64_t batch_until_ns_ = 0;
    bool batch_decided_ = false;
    std::optional<std::pair<std::string, std::string>> batch_requeue_;  // why, comment: while it has not been done

    task_thread keeper_{"varde-keeper"};
    task_thread mover_{"varde-mover"};
};

}  // namespace varde::agent
