// A figure of this machine, its goal, and what the programs of the bench share.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace varde::bench {

struct settings {
    std::string directory;             // where the bench may write; emptied afterwards
    std::string program_directory;     // of the bench itself: bin/varde-agent lies two above
    std::string plot_directory;        // where the SVGs go
    uint64_t size_bytes = 2ULL << 30;  // of the checkpoint
    unsigned pairs = 7;
    std::vector<std::string> agent_options;  // of each varde-agent that is started
};

struct figure {
    std::string name;
    std::string unit;
    double value = 0;  // median of `samples`, where there are some
    double goal = 0;
    bool at_least = true;  // whether the value is to reach the goal, or to stay below it
    std::vector<double> samples;
    std::string remark;
    double others_cores = 0;  // kept busy by other programs while it was taken

    bool met() const noexcept { return at_least ? value >= goal : value <= goal; }
};
using figures = std::vector<figure>;

enum class goal_kind : uint8_t { at_least, at_most };
figure median_of(std::string name, std::string unit, std::vector<double> samples, goal_kind kind, double goal,
                 std::string remark);

double median(std::vector<double> values);
double seconds_of(const std::function<void()>& work);
double seconds_since(uint64_t start_ns);

// Shown on a terminal only.
void progress(const std::string& line);

// Rounds in which everything that is compared has its turn: `turns` name no order, and each round begins with another.
// The first round warms up (files grow into fresh blocks, memory is touched) and is not in the answer: seconds, by turn
// and then by round.
using turn = std::function<result<double>()>;
result<std::vector<std::vector<double>>> take_turns(const settings& with, const std::string& name,
                                                    const std::vector<turn>& turns);
// Of each round, turn `peer` by turn `ours`: above 1 where ours is the faster.
std::vector<double> speed_ratios(const std::vector<std::vector<double>>& seconds, size_t ours, size_t peer);
std::string speed_text(uint64_t size_bytes, std::vector<double> seconds);  // "2 GiB at 2.6 GB/s"

// Each file of the bench takes the figures that come from one set-up.
result<figures> durable_figures(const settings& with);  // write_vs_fio, write_vs_plain
result<figures> restore_figures(const settings& with);  // restore_vs_fio, restore_vs_fio_copy
result<figures> staging_figures(const settings& with);  // staging_vs_copy, stall_ms_1gib
result<figures> due_figures(const settings& with);      // due_ns
result<figures> arena_figures(const settings& with);    // arena_pages_per_s
result<figures> limit_figures(const settings& with);    // write_limit_error
result<figures> agent_figures(const settings& with);    // agent_cpu_s_per_gb, agent_overhead_mib
result<figures> step_figures(const settings& with);     // step_dip_percent, and its plot
result<figures> store_figures(const settings& with);    // choice_s, roster_ms
result<figures> size_figures(const settings& with);     // no figure: the plot of bandwidth over size
result<figures> depth_table(const settings& with);      // no figure: a table

}  // namespace varde::bench
