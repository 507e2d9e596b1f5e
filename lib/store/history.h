// history.jsonl: what happened to a run, one event a line.  HISTORY.md has the events and their fields.
//
// Writing never fails for what an event holds; reading trusts nothing and goes on after any line.  Pure functions but
// for run_directory::read_history(); any thread.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace varde::store {

struct history_event {
    std::string name;  // "complete", "silent", ...
    uint64_t wall_ns = 0;
    uint64_t incarnation = 0;
    uint64_t job = 0;      // 0: no Slurm
    uint64_t restart = 0;  // how often Slurm has requeued the job
    std::string host;      // of the writer
    // What the event has besides.
    std::vector<std::pair<std::string, std::string>> texts;
    std::vector<std::pair<std::string, uint64_t>> numbers;

    // "" and 0 where it has no such field.
    const std::string& text(std::string_view key) const noexcept;
    uint64_t number(std::string_view key) const noexcept;
};

// Why training stopped: the field `cause` of the event that noticed it.  Readers show others as they are.
namespace cause {
constexpr const char* node = "node";                // a node is dead
constexpr const char* hang = "hang";                // no rank makes a step, though all nodes are alive
constexpr const char* application = "application";  // the batch script, or a step of it, failed
}  // namespace cause

// By `varde run`, before it does; the leader looks for it.
constexpr const char* restarted_in_place = "restarted_in_place";

constexpr uint64_t event_bytes_max = 16'384;             // a longer line is no event
constexpr uint64_t history_bytes_max = 256ULL << 20;     // a year of a restless run; of more the newest part is read
constexpr uint64_t event_ahead_ns = 86'400'000'000'000;  // clocks of nodes may differ, but not by more than a day

// One line without its line feed.  Bytes that are no UTF-8 become U+FFFD; texts are cut so that the line is an event.
std::string encode_event(const history_event& what);
// damaged: no event, or one from after `latest_wall_ns`.
result<history_event> decode_event(std::string_view line, uint64_t latest_wall_ns = UINT64_MAX);

struct history {
    std::vector<history_event> events;  // in the order of the file, which is that of time but for clocks that differ
    uint64_t unreadable_count = 0;      // lines that are no events
    uint64_t skipped_bytes = 0;         // at the start of a file larger than history_bytes_max
    bool torn = false;                  // its last line has no end: its writer died, or is at it
};
history decode_history(std::string_view text, uint64_t latest_wall_ns = UINT64_MAX);

}  // namespace varde::store
