// One seed: a job, its machines and its storage by a virtual clock, from the first start to the end.
#pragma once

#include "node_agent.h"
#include "cluster.h"
#include "promises.h"
#include "storage.h"

#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace varde::simulate {

// What one failure has cost.
struct loss {
    uint64_t rollback_ns = 0;
    uint64_t detect_ns = 0;    // to the requeue
    uint64_t requeue_ns = 0;   // until the job may start
    uint64_t schedule_ns = 0;  // until it starts
    uint64_t load_ns = 0;      // until its first step
    uint64_t sum_ns() const noexcept { return rollback_ns + detect_ns + requeue_ns + schedule_ns + load_ns; }
};

class simulation {
public:
    explicit simulation(const plan& with);
    void run();

    struct counts {
        uint64_t failures = 0;
        uint64_t requeues = 0;
        uint64_t generations = 0;
        uint64_t given_up = 0;  // the program failed without progress, or no generation was left to begin with
    };
    const counts& counted() const noexcept { return counted_; }
    const std::vector<loss>& losses() const noexcept { return losses_; }
    bool broken() const noexcept { return held.broken(); }
    std::string story() const;

    // ---- For the agents
    const plan with;
    dice of;
    storage run_storage;
    cluster slurm;
    promises held;
    bool storage_answers(uint32_t host, uint64_t now_ns) const {
        return now_ns >= stalled_until_ns_ && slurm.hosts[host].reaches_storage(now_ns);
    }
    bool slurm_answers(uint32_t host, uint64_t now_ns) const {
        return now_ns >= slurm.away_until_ns && slurm.hosts[host].answers(now_ns);
    }
    void on_noticed(const start& now, uint64_t now_ns);
    void on_requeue(const start& by, uint64_t now_ns, bool taken);
    void on_trains(start& which, store::generation_id id, uint64_t now_ns);
    void on_damaged() noexcept { was_damaged_ = true; }
    void on_late(uint64_t now_ns);
    void on_failed(uint64_t now_ns);
    void on_complete(const start& which, store::generation_id id, uint64_t now_ns);
    void retire(store::generation_id newest, uint64_t now_ns);
    void on_batch_failed(uint64_t now_ns, const std::string& refusal);
    void on_refused(uint64_t now_ns, const std::string& why);

private:
    void draw_faults();
    uint64_t next_fault_ns() const;
    void bring_faults(uint64_t now_ns);
    void kill_machine(uint64_t now_ns, uint64_t off_ns);
    void cut(uint64_t now_ns);
    void crash(uint64_t now_ns);
    void fail_start(uint64_t now_ns, bool died);
    void excuse(uint64_t now_ns, uint64_t fault_ns, uint64_t more_ns);
    void begin_start(uint64_t now_ns);
    void end_start(uint64_t now_ns);
    void end_batch(uint64_t now_ns);
    uint64_t next_of(double per_s, uint64_t now_ns);
    void check_rollback(store::generation_id restored, uint64_t now_ns);
    void tick_slurm(uint64_t now_ns);
    void bury_agents(uint64_t now_ns);
    void move_training(uint64_t now_ns);
    void count_loss(uint64_t now_ns);
    uint64_t advance(uint64_t now_ns);
    bool all_well(uint64_t now_ns) const;
    start* current() noexcept { return starts_.empty() ? nullptr : &starts_.back(); }

    std::deque<start> starts_;
    std::vector<std::unique_ptr<node_agent>> agents_;  // of all starts, as long as they live
    uint64_t stalled_until_ns_ = 0;
    uint64_t busy_ns_ = 0;  // when there was last something to do

    // Faults to come
    std::deque<uint64_t> planned_deaths_ns_;
    uint64_t death_ns_ = 0, cut_ns_ = 0, stall_ns_ = 0, crash_ns_ = 0, outage_ns_ = 0;
    uint64_t abort_ns_ = UINT64_MAX;       // ranks that wait for a lost peer give up
    uint64_t batch_exit_ns_ = UINT64_MAX;  // the batch script ends
    uint64_t user_ns_ = UINT64_MAX;        // the user requeues the job, too

    // What the promises go by
    uint64_t healed_ns_ = 0;
    uint64_t fault_ns_since_failure_ = 0;
    uint64_t excused_ns_ = 0;          // time that faults may have kept generations from becoming complete
    uint64_t earlier_excused_ns_ = 0;  // before the newest did: what had put that off has put the next one off, too
    uint64_t fault_end_ns_ = 0;
    uint64_t calm_ns_ = 0;  // from when on intervals are undisturbed
    uint64_t newest_complete_ns_ = 0;
    uint64_t late_lead_ns_ = 0;
    uint64_t last_complete_step_ = 0;  // of the present start
    bool any_complete_ = false;
    bool was_damaged_ = false;
    uint64_t launches_ = 0;
    bool over_ = false;
    struct {
        bool open = false;
        bool by_person = false;
        uint64_t failed_ns = 0;
        uint64_t step = 0;
        uint64_t requeued_ns = 0;
        uint64_t excused_ns = 0;
    } failure_;
    std::vector<loss> losses_;
    counts counted_;
};

}  // namespace varde::simulate
