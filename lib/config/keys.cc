// What each key of varde.yaml means and takes.
#include "config/keys.h"

#include "base/limits.h"
#include "base/options.h"
#include "base/units.h"

namespace varde {

namespace {

constexpr uint64_t write_bytes_per_s_min = 1 << 20;

// A whole number between two bounds.
template <auto member, uint32_t least, uint32_t most>
constexpr value_rule number{[](config& target, std::string_view text) -> result<void> {
                                auto value = parse_number(text, most);
                                if (!value) return std::move(value).error();
                                if (*value < least)
                                    return fail(code::invalid, "it is smaller than " + std::to_string(least));
                                target.*member = static_cast<uint32_t>(*value);
                                return {};
                            },
                            [](const config& source) { return std::to_string(source.*member); },
                            [] { return std::to_string(least) + " to " + std::to_string(most); }};

// "4M": in the largest unit that says it exactly.
std::string size_text(uint64_t bytes) {
    constexpr std::string_view units = "KMGTPE";
    size_t count = 0;
    for (; count < units.size() && bytes != 0 && bytes % 1024 == 0; count++) bytes /= 1024;
    return std::to_string(bytes) + (count == 0 ? "" : std::string(1, units[count - 1]));
}

const option_rule& option_of(std::string_view variable) {
    for (const option_rule& rule : option_rules())
        if (variable == rule.variable) return rule;
    return option_rules().front();  // not reached: the names below are literals, and a test uses each
}

// The rules of --ckpt-memory hold for the site's default too.
result<void> apply_memory(config& target, std::string_view text) {
    options parsed;
    auto done = option_of("MEMORY").apply(parsed, text);
    if (!done) return done;
    target.memory_bytes = parsed.memory_bytes;
    target.memory_percent = parsed.memory_percent;
    return {};
}

constexpr value_rule memory{apply_memory,
                            [](const config& source) {
                                return source.memory_bytes ? size_text(*source.memory_bytes)
                                                           : std::to_string(source.memory_percent.value_or(0)) + "%";
                            },
                            [] { return std::string("a size (64G), or a share of the node's memory (1% to 90%)"); }};

result<void> apply_chunk(config& target, std::string_view text) {
    auto bytes = parse_size_bytes(text);
    if (!bytes) return std::move(bytes).error();
    const bool power_of_two = *bytes != 0 && (*bytes & (*bytes - 1)) == 0;
    if (!power_of_two || *bytes < limits::chunk_bytes_min || *bytes > limits::chunk_bytes_max)
        return fail(code::invalid, "a chunk is a power of two from 4K to 64M");
    target.chunk_bytes = *bytes;
    return {};
}

constexpr value_rule chunk{apply_chunk, [](const config& source) { return size_text(source.chunk_bytes); },
                           [] { return std::string("a power of two from 4K to 64M"); }};

result<void> apply_write_limit(config& target, std::string_view text) {
    if (text == "off") {
        target.write_bytes_per_s = 0;
        return {};
    }
    auto bytes = parse_size_bytes(text);
    if (!bytes) return std::move(bytes).error();
    if (*bytes < write_bytes_per_s_min) return fail(code::invalid, "it is less than 1M, or 'off' for no limit");
    target.write_bytes_per_s = *bytes;
    return {};
}

constexpr value_rule write_limit{apply_write_limit,
                                 [](const config& source) {
                                     return source.write_bytes_per_s == 0 ? std::string("off")
                                                                          : size_text(source.write_bytes_per_s);
                                 },
                                 [] { return std::string("a size of 1M or more, per second; or off"); }};

result<void> apply_bin_dir(config& target, std::string_view text) {
    if (!text.empty() && text.front() != '/') return fail(code::invalid, "it is not an absolute path");
    if (text.size() >= limits::path_bytes_max) return fail(code::invalid, "it is too long");
    target.bin_dir = text;
    return {};
}

constexpr value_rule bin_dir{apply_bin_dir,
                             [](const config& source) { return source.bin_dir.empty() ? "\"\"" : source.bin_dir; },
                             [] { return std::string("an absolute path, or \"\""); }};

constexpr config_section sections[] = {
    {"agent",
     "The agent: one process per job and node.  Its arena holds a checkpoint from the moment it is copied "
     "until it is on storage."},
    {"failures", "How often nodes fail, for --ckpt-interval=auto."},
    {"defaults", "What a job gets where its own options say nothing."},
    {"prolog", "Root's program on each node before a job."},
    {"epilog", "Root's program on each node after a job."},
    {"controller", "The helper of EpilogSlurmctld that frees a requeued job from dead nodes."},
    {"slurm", "The Slurm of this cluster."},
};

constexpr config_key keys[] = {
    {"agent", "memory", "", "10%", memory,
     "Size of the arena.  Slurm's scheduler does not know of it: lower RealMemory "
     "or set MemSpecLimit by as much.",
     "MEMORY"},
    {"agent", "chunk", "", "4M", chunk, "Unit of copying and writing."},
    {"agent", "write_limit", "", "2G", write_limit,
     "A node writes checkpoints no faster than so many bytes a second; off: as fast as the storage takes them."},
    {"agent", "pulse_ms", "milliseconds", "1000", number<&config::pulse_ms, 10, 60'000>,
     "Period of the roster: how often a node writes its slot and reads the leader's."},
    {"agent", "silence_s", "seconds", "30", number<&config::silence_s, 1, 3600>,
     "A node whose slot is silent for so long while training stands still is taken for dead."},
    {"failures", "node_mtbf_h", "hours", "10000", number<&config::node_mtbf_h, 1, 10'000'000>,
     "Mean time between failures of one node; a job on n nodes fails n times as often."},
    {"defaults", "keep", "checkpoints", "3", number<&config::keep, 1, limits::count_option_max>,
     "How many complete checkpoints stay.", "KEEP"},
    {"defaults", "max_restarts", "requeues", "100", number<&config::max_restarts, 0, limits::count_option_max>,
     "How often one job is requeued after failures.", "MAX_RESTARTS"},
    {"prolog", "ready_ms", "milliseconds", "900", number<&config::ready_ms, 50, 60'000>,
     "How long the prolog waits for the agent; later, the node's state is \"degraded\" and the job starts without it."},
    {"epilog", "drain_s", "seconds", "30", number<&config::drain_s, 0, 3600>,
     "How long the epilog waits until staged checkpoints are on storage.  The node stays COMPLETING for so long at "
     "most.  Slurm's PrologEpilogTimeout, where set, must be longer."},
    {"controller", "free_s", "seconds", "180", number<&config::free_s, 10, 3600>,
     "The helper gives up after so long; the job then starts when Slurm lets it."},
    {"slurm", "bin_dir", "", "/usr/bin", bin_dir,
     "Where scontrol and squeue are.  Empty: beside the running slurmd (or slurmctld), else /usr/bin."},
};

}  // namespace

std::span<const config_section> config_sections() noexcept { return sections; }
std::span<const config_key> config_keys() noexcept { return keys; }

std::string full_name(const config_key& key) { return std::string(key.section) + "." + key.name; }

std::string unit_and_values(const config_key& key) {
    const std::string unit = key.unit;
    return (unit.empty() ? "" : unit + ", ") + key.value.values();
}

}  // namespace varde
