// What one seed simulates: the size of the job, its pace, the storage, Slurm's timers, and what goes wrong how often.
#pragma once

#include "base/clock.h"

#include <cstdint>
#include <random>
#include <string_view>

namespace varde::simulate {

// Every draw of a seed comes from here, so that the seed alone decides what happens.
class dice {
public:
    explicit dice(uint64_t seed) : random_(seed) {}
    uint64_t pick(uint64_t low, uint64_t high) { return low + random_() % (high - low + 1); }
    bool chance(double probability) { return share() < probability; }
    double share() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
    uint64_t until_next(double per_s);  // exponential

private:
    std::mt19937_64 random_;
};

// Mistakes that the promises must find.
enum class mistake {
    none,
    retire_early,   // retention counts a generation that is still being written
    no_fence,       // an agent does not look for newer incarnations
    any_start,      // a requeue does not ask which start of the job it ends
    partial_packs,  // a pack counts as soon as its file is there
    silence_alone,  // a silent node is called dead while training goes on
    take_back,      // a start that was cut off takes the run back from a later one
};
mistake mistake_of(std::string_view name);  // none for a name that is none

struct plan {
    uint64_t seed = 0;
    uint32_t node_count = 0;
    uint32_t spare_count = 0;
    uint64_t length_ns = 0;
    uint64_t step_ns = 0;
    uint64_t interval_ns = 0;
    uint64_t drain_ns = 0;   // typical, from a save to its seal; a node takes between half of it and half again as long
    uint64_t launch_ns = 0;  // from the job's start until its ranks ask for their state
    uint64_t load_ns = 0;
    uint32_t keep = 3;
    uint32_t max_restarts = 100;
    bool detection = true;  // false: agents neither requeue nor does the controller's helper hurry the job
    mistake made = mistake::none;

    // varde.yaml's defaults
    uint64_t silence_ns = 30 * ns_per_s;
    uint64_t pulse_ns = ns_per_s;
    // slurm.conf's defaults
    uint64_t slurmd_timeout_ns = 300 * ns_per_s;
    uint64_t kill_wait_ns = 30 * ns_per_s;
    uint64_t requeue_delay_ns = 121 * ns_per_s;

    // Faults of the whole job, per second, and how many deaths are planned where it is not left to chance.
    double deaths_per_s = 0;
    double cuts_per_s = 0;     // of a node from storage, from its peers, or both
    double stalls_per_s = 0;   // of the storage, for all
    double crashes_per_s = 0;  // of the program
    double outages_per_s = 0;  // of slurmctld
    double write_loss = 0;     // of a slot, per write
    double write_delay = 0;
    double seal_failure = 0;  // per pack
    double damage = 0;        // of a pack that is found when it is loaded, per node and load
    uint32_t deaths_planned = 0;
};

plan draw_plan(uint64_t seed);
// 192 nodes, 20 minutes, two nodes that die, Slurm's default timers; nothing else goes wrong.
plan reference_plan(uint64_t seed, bool detection);

}  // namespace varde::simulate
