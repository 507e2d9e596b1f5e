// One node's agent in one start: the decisions of lib/agent in the order of node::on_seen(), with simulated ranks,
// drains and calls of scontrol around them.
#pragma once

#include "agent/leader.h"
#include "agent/requeue.h"
#include "start.h"

#include <optional>
#include <set>
#include <vector>

namespace varde::simulate {

class simulation;

class node_agent {
public:
    node_agent(simulation& in, start& of, uint32_t index);

    void beat(uint64_t now_ns);  // what storage lets it do
    void tick(uint64_t now_ns);  // what goes on by itself: calls of scontrol
    void on_batch_exit(uint64_t now_ns);
    void abandon();  // its machine has died: what it was writing stays as it is

    const start& of() const noexcept { return of_; }
    uint32_t host() const noexcept { return host_; }
    bool trains() const noexcept { return stage_ == stage::training; }
    bool drains() const noexcept { return !works_.empty(); }
    bool fenced() const noexcept { return fenced_; }
    // Nothing comes of it before the next proposal.
    bool is_settled() const noexcept;
    uint64_t due_ns() const noexcept { return leading_ ? schedule_.due_ns() : 0; }

private:
    enum class stage : uint8_t { opening, choosing, training, refused };
    struct work {
        uint64_t step = 0;
        uint64_t sealed_ns = 0;
    };
    struct call {  // `scontrol show job` and then `scontrol requeue`
        uint64_t show_ns = 0;
        uint64_t requeue_ns = 0;
        bool may = false;
    };

    bool open(uint64_t now_ns);
    void fence(uint64_t now_ns);
    void write(uint64_t now_ns);
    void read(uint64_t now_ns);
    void make_room();
    void decide(uint64_t now_ns);
    void lead_start(const agent::view& what);
    void choose(uint64_t now_ns);
    void follow_choice(const store::slot& leader, uint64_t now_ns);
    void let_go(const store::slot& leader, uint64_t now_ns);
    void lead_generations(const agent::view& what);
    void commit(uint64_t now_ns);
    void follow_generation(const store::slot& leader, uint64_t now_ns);
    void save_and_seal(uint64_t now_ns);
    void seal(const work& of, uint64_t now_ns);
    void set_outcome(uint64_t step, store::outcome how);
    void watch(const agent::view& what);
    void request_requeue(uint64_t now_ns);
    void settle_batch_exit(uint64_t now_ns);
    store::generation_id own(uint64_t step) const noexcept { return {step, mine_.incarnation}; }

    simulation& in_;
    start& of_;
    uint32_t index_;
    uint32_t host_;
    stage stage_ = stage::opening;
    bool fenced_ = false;
    bool leading_ = false;
    store::slot mine_;
    uint64_t sequence_ = 0;
    std::vector<agent::sighting> seen_;  // as many as it looks at ...
    agent::sighting self_;               // ... and itself, where it is not among them
    agent::schedule schedule_;

    std::optional<agent::restart> restart_;
    uint64_t chosen_ns_ = 0;  // when a choice under way will have read the directory; 0: none is
    bool after_damage_ = false;
    uint64_t followed_attempt_ = 0;
    uint64_t loaded_ns_ = 0;  // 0: nothing is being loaded

    uint64_t restored_step_ = 0;
    uint64_t armed_step_ = 0;
    bool armed_open_ = false;
    std::vector<work> works_;
    uint64_t committing_step_ = 0;
    std::optional<agent::sealed_generation> committing_;
    uint64_t committed_ns_ = 0;

    agent::requeue_wish wish_;
    std::optional<call> call_;
    bool batch_exit_ = false;
    uint64_t batch_until_ns_ = 0;
};

}  // namespace varde::simulate
