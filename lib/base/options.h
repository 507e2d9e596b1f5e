// The --ckpt-* options: what a job asked for, read and checked in one place for the plugin, the prolog and the library.
//
// Their values travel as text: sbatch option -> environment (SLURM_VARDE_<NAME> in the job, SPANK_VARDE_<NAME> in
// prolog and epilog) -> here.  As text from a user they are checked again by every reader.  Pure functions, any
// thread.
#pragma once

#include "base/exit_codes.h"
#include "base/result.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace varde {

// An interval that the agent computes (agent/interval.h).
constexpr uint64_t interval_auto_s = UINT64_MAX;

enum class restart_policy : uint8_t { automatic, never, step };

struct options {
    std::optional<uint64_t> interval_s;      // 0: off; interval_auto_s
    std::string directory;                   // as given, with its patterns (expand_directory); empty: not given
    std::string name;                        // empty: not given
    std::optional<uint32_t> keep;            // complete generations that stay, at least 1
    std::optional<uint64_t> memory_bytes;    // at most one of memory_bytes and memory_percent
    std::optional<uint32_t> memory_percent;  // of the node's memory, 1 to 90
    restart_policy restart = restart_policy::automatic;
    uint64_t restart_step = 0;  // where restart is `step`
    std::optional<uint32_t> max_restarts;
    std::optional<exit_codes> final_exits;   // of the batch script, after which the job is not requeued
    std::optional<uint64_t> hang_timeout_s;  // 0: off

    bool wanted() const noexcept { return interval_s.has_value() && *interval_s > 0; }
};

// One option as the plugin registers it and the environment carries it.
struct option_rule {
    const char* option;    // "ckpt-interval"
    const char* variable;  // "INTERVAL": SLURM_VARDE_INTERVAL, SPANK_VARDE_INTERVAL, VARDE_INTERVAL
    const char* value;     // "TIME", for the usage text
    const char* usage;
    const char* example;  // a right value, shown when one is refused
    result<void> (*apply)(options& target, std::string_view text);
};

// All options in the order of the usage text.
std::span<const option_rule> option_rules() noexcept;

// Applies one option; the error names option, value, reason and a right example, in one line.  `target` is unchanged
// then.
result<void> apply_option(options& target, const option_rule& rule, std::string_view text);

// Reads PREFIX<VARIABLE> (such as "SLURM_VARDE_") for each rule through `get` (getenv, or a test's table).  A
// variable that is empty counts as not set, as in Slurm; the error names the variable too.
using environment = const char* (*)(const char* name);
result<options> options_from_environment(const char* prefix, environment get);

// %u user, %j job id, %x job name, %% a percent sign; any other is an error, as is a value that is empty where it is
// used. A value becomes one name of the path: '/' in it turns into '_', and "." and ".." are errors.
struct pattern_values {
    std::string user;
    std::string job_id;
    std::string job_name;
};
result<std::string> expand_directory(std::string_view pattern, const pattern_values& values);

// Letters, digits, '.', '_' and '-'; not "." or ".."; at most limits::run_name_bytes_max bytes.
result<void> check_run_name(std::string_view name);

}  // namespace varde
