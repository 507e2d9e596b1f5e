// What each key of varde.yaml means and takes.
#include "config/keys.h"

#include "base/limits.h"
#include "base/options.h"
#include "base/paths.h"
#include "base/units.h"

#include <algorithm>

namespace varde {

namespace {

constexpr size_t cpu_list_bytes_max = 1024;
constexpr uint64_t write_bytes_per_s_min = 1 << 20;
// srun calls a prolog hung after MessageTimeout (10 s) less 2.
constexpr uint32_t probe_s_max = 8;

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

result<void> apply_huge_pages(config& target, std::string_view text) {
    if (text != "off" && text != "2M" && text != "1G") return fail(code::invalid, "it is neither 2M, 1G nor off");
    target.huge_page_bytes = text == "2M" ? 2ULL << 20 : text == "1G" ? 1ULL << 30 : 0;
    return {};
}

constexpr value_rule huge_pages{apply_huge_pages,
                                [](const config& source) {
                                    return source.huge_page_bytes == 0 ? std::string("off")
                                                                       : size_text(source.huge_page_bytes);
                                },
                                [] { return std::string("2M, 1G or off"); }};

result<void> apply_cpus(config& target, std::string_view text) {
    target.writer_cpus = text;
    if (text.find_first_not_of("0123456789,-") == std::string_view::npos && text.size() < cpu_list_bytes_max) return {};
    return fail(code::invalid, "it is no list of CPUs");
}

constexpr value_rule cpus{apply_cpus,
                          [](const config& source) { return source.writer_cpus.empty() ? "\"\"" : source.writer_cpus; },
                          [] { return std::string("a list such as 0-3,64, or \"\""); }};

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

// "/flash1 /flash2"
result<void> apply_mounts(config& target, std::string_view text) {
    std::vector<std::string> mounts;
    while (!text.empty()) {
        const std::string mount(text.substr(0, text.find(' ')));
        text.remove_prefix(std::min(mount.size() + 1, text.size()));
        if (mount.empty()) continue;
        if (!is_plain_path(mount))
            return fail(code::invalid, "'" + printable(mount) + "' is not the absolute path of a mount");
        if (std::find(mounts.begin(), mounts.end(), mount) != mounts.end())
            return fail(code::invalid, "'" + printable(mount) + "' comes twice");
        mounts.push_back(mount);
    }
    if (mounts.size() > limits::mounts_max)
        return fail(code::invalid, "more than " + std::to_string(limits::mounts_max) + " mounts");
    target.mounts = std::move(mounts);
    return {};
}

constexpr value_rule mounts{apply_mounts,
                            [](const config& source) {
                                std::string text;
                                for (const std::string& mount : source.mounts)
                                    text += (text.empty() ? "" : " ") + mount;
                                return text.empty() ? std::string("\"\"") : text;
                            },
                            [] { return std::string("PATH PATH, mount points; or \"\""); }};

result<void> apply_final_exits(config& target, std::string_view text) {
    auto codes = parse_exit_codes(text);
    if (!codes) return std::move(codes).error();
    target.final_exits = *codes;
    return {};
}

constexpr value_rule final_exits{apply_final_exits,
                                 [](const config& source) { return format_exit_codes(source.final_exits); },
                                 [] { return std::string("codes from 1 to 255 and ranges of them; or none"); }};
result<void> apply_hang_timeout(config& target, std::string_view text) {
    options parsed;
    auto done = option_of("HANG_TIMEOUT").apply(parsed, text);
    if (done) target.hang_timeout_s = *parsed.hang_timeout_s;
    return done;
}

constexpr value_rule hang_timeout{apply_hang_timeout,
                                  [](const config& source) {
                                      return source.hang_timeout_s == 0 ? std::string("off")
                                                                        : format_duration(source.hang_timeout_s);
                                  },
                                  [] { return std::string("a time (30m, 90s); or off"); }};

result<void> apply_bin_dir(config& target, std::string_view text) {
    if (!text.empty() && text.front() != '/') return fail(code::invalid, "it is not an absolute path");
    if (text.size() >= limits::path_bytes_max) return fail(code::invalid, "it is too long");
    target.bin_dir = text;
    return {};
}

constexpr value_rule bin_dir{apply_bin_dir,
                             [](const config& source) { return source.bin_dir.empty() ? "\"\"" : source.bin_dir; },
                             [] { return std::string("an absolute path, or \"\""); }};

// A value of the section `storage` that reads as `parse` says and is written as `format` does; "" where it is not set.
template <auto member, auto parse, auto format, const char* const* words>
constexpr value_rule storage{[](config& target, std::string_view text) -> result<void> {
                                 target.storage.*member = storage_settings{}.*member;
                                 if (text.empty()) return {};
                                 auto value = parse(text);
                                 if (!value) return std::move(value).error();
                                 target.storage.*member = std::move(*value);
                                 return {};
                             },
                             [](const config& source) {
                                 const std::string text = format(source.storage.*member);
                                 return text.empty() ? std::string("\"\"") : text;
                             },
                             [] { return std::string(*words); }};

template <auto format>
constexpr auto if_set = [](const auto& value) { return value ? format(*value) : std::string(); };

constexpr const char* interface_words = "a name of at most 15 characters, or \"\"";
constexpr const char* policy_words = "check, require or route";
constexpr const char* subnet_words = "a network such as 10.1.0.0/16, or \"\"";
constexpr const char* gateway_words = "an IP address, or \"\"";
constexpr const char* targets_words = "PATH ADDRESS ADDRESS, PATH ADDRESS; or \"\"";
constexpr auto interface = storage<&storage_settings::interface, parse_interface, format_interface, &interface_words>;
constexpr auto policy = storage<&storage_settings::policy, parse_policy, format_policy, &policy_words>;
constexpr auto subnet = storage<&storage_settings::subnet, parse_prefix, if_set<format_prefix>, &subnet_words>;
constexpr auto gateway = storage<&storage_settings::gateway, parse_address, if_set<format_address>, &gateway_words>;
constexpr auto targets = storage<&storage_settings::targets, parse_targets, format_targets, &targets_words>;

// A least value that the interface must have.
template <auto member, uint32_t most>
constexpr value_rule least{[](config& target, std::string_view text) -> result<void> {
                               auto value = parse_number(text, most);
                               if (!value) return std::move(value).error();
                               target.storage.*member = static_cast<uint32_t>(*value);
                               return {};
                           },
                           [](const config& source) { return std::to_string(source.storage.*member); },
                           [] { return "0 to " + std::to_string(most) + "; 0: any"; }};

constexpr config_section sections[] = {
    {"agent",
     "The agent: one process per job and node.  Its arena holds a checkpoint from the moment it is copied "
     "until it is on storage."},
    {"failures", "How often nodes fail, for --ckpt-interval=auto."},
    {"defaults", "What a job gets where its own options say nothing."},
    {"prolog", "Root's program on each node before a job."},
    {"epilog", "Root's program on each node after a job."},
    {"controller", "The helper of EpilogSlurmctld that frees a requeued job from dead nodes."},
    {"storage",
     "The network that is to carry the checkpoints.  The prolog looks which interface leads to the servers of the file "
     "system that holds the job's checkpoint directory."},
    {"slurm", "The Slurm of this cluster."},
};

constexpr config_key keys[] = {
    {"agent", "memory", "", "10%", memory,
     "Size of the arena.  Slurm's scheduler does not know of it: lower RealMemory "
     "or set MemSpecLimit by as much.",
     "MEMORY"},
    {"agent", "huge_pages", "", "2M", huge_pages,
     "Pages of the arena.  The prolog adds what the kernel's pools lack, where free memory is found in 0.3 s, and the "
     "epilog takes that away again; else, and where they would make the arena more than 2 % larger, it has ordinary "
     "pages.  Huge pages are not charged to a control group of memory."},
    {"agent", "cpus", "", "0-3,64", cpus,
     "CPUs that are set aside for the system (Slurm's CpuSpecList, or those of CoreSpecCount): the agent writes on "
     "them.  Empty: on CPUs near the storage device, if the prolog can tell which these are."},
    {"agent", "chunk", "", "4M", chunk, "Unit of copying and writing."},
    {"agent", "write_limit", "", "2G", write_limit,
     "A node writes checkpoints no faster than so many bytes a second; off: as fast as the storage takes them."},
    {"agent", "pulse_ms", "milliseconds", "1000", number<&config::pulse_ms, 10, 60'000>,
     "Period of the roster: how often a node writes its slot and reads the leader's."},
    {"agent", "silence_s", "seconds", "30", number<&config::silence_s, 1, 3600>,
     "A node whose slot is silent for so long while training stands still is taken for dead."},
    {"agent", "mounts", "", "/flash1 /flash2", mounts,
     "Mounts over which the nodes of a job spread their packs, beside the checkpoint directory: node i writes to the "
     "i-th, counted round, and a link in the run's directory leads there.  Each is a mount point of a shared file "
     "system, the same on every node, where users may make directories as in /tmp.  A mount that is away, full or not "
     "usable is gone around, which the agent's log says.  Empty: each pack lies in its run's directory."},
    {"failures", "node_mtbf_h", "hours", "10000", number<&config::node_mtbf_h, 1, 10'000'000>,
     "Mean time between failures of one node; a job on n nodes fails n times as often."},
    {"defaults", "keep", "checkpoints", "3", number<&config::keep, 1, limits::count_option_max>,
     "How many complete checkpoints stay.", "KEEP"},
    {"defaults", "max_restarts", "requeues", "100", number<&config::max_restarts, 0, limits::count_option_max>,
     "How often one job is requeued after failures.", "MAX_RESTARTS"},
    {"defaults", "final_exits", "", "2,64-78", final_exits,
     "Exit codes of a batch script after which its job is not requeued, because the same failure would come again: a "
     "wrong option, a missing file.",
     "FINAL_EXITS"},
    {"defaults", "hang_timeout", "", "30m", hang_timeout,
     "A job of which no rank has made a step for so long, though all its nodes are alive, is requeued.  It must be "
     "longer than the longest pause between two steps of any program, an evaluation for example; hence it is off.",
     "HANG_TIMEOUT"},
    {"prolog", "ready_ms", "milliseconds", "900", number<&config::ready_ms, 50, 60'000>,
     "How long the prolog waits for the agent; later, the node's state is \"degraded\" and the job starts without it."},
    {"prolog", "probe_s", "seconds", "5", number<&config::probe_s, 1, probe_s_max>,
     "How long the checkpoint directory has to answer; later, it is taken for hung, which the journal says, and the "
     "job "
     "starts."},
    {"epilog", "drain_s", "seconds", "30", number<&config::drain_s, 0, 3600>,
     "How long the epilog waits until staged checkpoints are on storage.  The node stays COMPLETING for so long at "
     "most.  Slurm's PrologEpilogTimeout, where set, must be longer."},
    {"controller", "free_s", "seconds", "180", number<&config::free_s, 10, 3600>,
     "The helper gives up after so long; the job then starts when Slurm lets it."},
    {"storage", "interface", "", "ib0", interface,
     "Its interface on the nodes.  Empty: the prolog reports which one is used, and expects nothing."},
    {"storage", "policy", "", "check", policy,
     "check: what is wrong is said in the journal.  require: the job then has no agent of the prolog, too.  route: a "
     "host route over the interface is added for each server in `subnet` that is reached over another one, until the "
     "last job of the node that needs it has ended; what cannot be put right is said in the journal."},
    {"storage", "subnet", "", "10.1.0.0/16", subnet,
     "The servers' network, needed for `route`: no route is added to an address outside."},
    {"storage", "gateway", "", "10.1.0.1", gateway,
     "The router to it, for `route`.  Empty: the servers are on the interface's own network."},
    {"storage", "targets", "", "/weka 10.1.0.5 10.1.0.6", targets,
     "Servers where the mount does not name them (GPFS, Weka, BeeGFS).  The longest path that holds the directory "
     "counts, and wins over what the mount says."},
    {"storage", "mtu_min", "bytes", "9000", least<&storage_settings::mtu_min_bytes, 65'536>,
     "The least MTU of the interface."},
    {"storage", "speed_min_mbps", "Mbit/s", "100000", least<&storage_settings::speed_min_mbps, 100'000'000>,
     "The least speed of the interface, as /sys/class/net/INTERFACE/speed has it; one that has none passes."},
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
