// A training job of one node: a real agent, and ranks that hold tensors and use libvarde.so.
#pragma once

#include "agent_process.h"
#include "base/handle.h"
#include "varde.h"

#include <memory>

namespace varde::bench {

struct trainer_options {
    std::string name;  // of the run; the same name again restores what the first has saved
    uint32_t ranks = 1;
    uint64_t size_bytes = 0;  // of all ranks together
    uint32_t tensors = 16;    // of each rank
    int cpu = -1;             // of the agent and of the copy threads; -1: any
};

class trainer {
public:
    // Opens the run on all ranks, without restoring.
    static result<std::unique_ptr<trainer>> start(const settings& with, const trainer_options& wanted);
    ~trainer();

    // All ranks at once.  Returns the step.
    result<uint64_t> restore();
    result<void> save(uint64_t step);
    result<void> fence();
    result<void> wait(uint32_t timeout_ms);      // until the newest save is durable
    result<double> save_durably(uint64_t step);  // save, fence and wait: seconds
    result<void> close();                        // and waits for the end of the agent

    const agent_process& agent() const noexcept { return agent_; }
    varde_run* run(uint32_t rank) const noexcept { return runs_[rank]; }
    const mapping& memory() const noexcept { return memory_; }

private:
    explicit trainer(agent_process agent) : agent_(std::move(agent)) {}
    result<void> open(const settings& with, const trainer_options& wanted, uint32_t rank);
    result<void> register_tensors(const trainer_options& wanted, uint32_t rank);
    result<void> on_each_rank(const std::function<int(uint32_t rank)>& call);

    agent_process agent_;
    mapping memory_;
    std::vector<varde_run*> runs_;
    std::string launch_;
};

result<mapping> map_memory(uint64_t size_bytes);  // present
void fill(const mapping& memory);                 // with bytes that no storage can compress

}  // namespace varde::bench
