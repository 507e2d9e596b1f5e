// What a run's history tells: its starts, generations, restarts and what each cost.  Pure; any thread.
//
// The events come from a file that anybody who trains may have damaged: whatever they say, there is a story of them,
// its times ordered and its differences not negative.
#pragma once

#include "store/history.h"

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace varde::cli {

struct moment {
    uint64_t wall_ns = 0;
    uint64_t step = 0;
};

enum class fate : uint8_t { open, complete, late, failed, damaged };

struct generation_story {
    uint64_t step = 0;
    uint64_t incarnation = 0;
    fate what = fate::open;
    bool retired = false;
    uint64_t proposed_wall_ns = 0;  // 0: not told, here and below
    uint64_t staged_wall_ns = 0;
    uint64_t settled_wall_ns = 0;  // complete, late, failed
    uint64_t bytes = 0;
    uint64_t stage_ns = 0;
    uint64_t drain_ns = 0;
    uint64_t stall_ns = 0;
    std::string why;  // where it is neither open nor complete
};

// What a restart costs, in the order of time (lib/store/HISTORY.md).
enum part : size_t { rollback, detect, requeue, schedule, launch, load, first_step, part_count };
extern const std::array<const char*, part_count> part_names;

struct restart_story {
    uint64_t incarnation = 0;  // that began
    std::string cause;         // a word of store::cause; empty: nothing of ours noticed it
    std::string what;          // for people
    bool planned = false;      // the run had come to its end before: it cost nothing
    uint64_t last_step = 0;
    uint64_t restored_step = 0;
    uint64_t stopped_wall_ns = 0;
    uint64_t repeated_wall_ns = 0;               // when the step was reached to which it went back
    std::array<uint64_t, part_count> ends_ns{};  // of each part but the rollback; one that is missing took no time
    std::array<uint64_t, part_count> cost_ns{};
    uint64_t steps_repeated() const noexcept { return last_step > restored_step ? last_step - restored_step : 0; }
    uint64_t total_ns() const noexcept;
};

struct start_story {
    uint64_t job = 0;
    uint64_t requeues = 0;  // of the job
    uint64_t nodes = 0;
    uint64_t ranks = 0;
    std::string launch;
    uint64_t began_wall_ns = 0;
    uint64_t last_wall_ns = 0;
    uint64_t restored_step = 0;
    std::string end;               // "ended", "stopped", ... ; empty: not told
    std::vector<moment> progress;  // times and steps grow
    uint64_t step_ns = 0;          // 0: not known
    uint64_t last_step() const noexcept { return progress.empty() ? restored_step : progress.back().step; }
};

struct remark {
    uint64_t wall_ns = 0;
    std::string text;
};

struct story {
    std::map<uint64_t, start_story> starts;                                 // by incarnation
    std::map<std::pair<uint64_t, uint64_t>, generation_story> generations;  // by incarnation and step
    std::vector<restart_story> restarts;
    std::vector<remark> remarks;  // what a person should know besides
    uint64_t first_wall_ns = 0;
    uint64_t last_wall_ns = 0;
    uint64_t last_step = 0;
    uint64_t unreadable_count = 0;
    uint64_t skipped_bytes = 0;

    uint64_t count(fate what) const noexcept;
    uint64_t stall_ns() const noexcept;  // of all generations
    uint64_t lost_ns() const noexcept;   // to all restarts that were not planned
    const generation_story* newest_complete() const noexcept;
    bool over() const noexcept;  // the run has come to its end
};

story tell(const store::history& from);

// ---- Words for people
std::string span_text(uint64_t ns);        // "12 ms", "3.4 s", "1h30m"
std::string clock_text(uint64_t wall_ns);  // "2026-01-31 10:20:03", in the host's zone
const char* fate_name(fate what) noexcept;
std::string shown(const std::string& text);  // of any origin, on one line and not too long

}  // namespace varde::cli
