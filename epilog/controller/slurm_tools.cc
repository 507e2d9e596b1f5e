// Parsers of Slurm's output, and the calls that make it.
#include "epilog/controller/slurm_tools.h"

#include "base/fields.h"
#include "base/process.h"
#include "base/units.h"

#include <algorithm>

namespace varde::controller {

namespace {

constexpr int tool_ms = 10'000;                // a busy slurmctld answers in seconds
constexpr size_t output_bytes_max = 16 << 20;  // some hundred bytes for each node of a large cluster

// Slurm's word for nothing.
std::string value(std::string_view text) {
    return text == "(null)" || text == "N/A" ? std::string() : std::string(text);
}

}  // namespace

result<job_facts> parse_job(std::string_view line) {
    if (std::count(line.begin(), line.end(), '|') < 3)
        return fail(code::damaged, "squeue said '" + printable(line) + "'");
    job_facts found;
    found.state = take_until(line, '|');
    const auto end = parse_number(take_until(line, '|'));
    if (end) found.end_s = *end;
    found.excluded = value(take_until(line, '|'));
    found.comment = value(line);
    if (!is_node_list(found.excluded))
        return fail(code::damaged, "squeue said '" + printable(found.excluded) + "' are excluded nodes");
    return found;
}

fate fate_of(const job_facts& job, uint64_t now_s) noexcept {
    if (job.state == "PENDING") return fate::pending;
    // A job that waits ends a minute from now at least; a second is for the clock's turn between squeue and us.
    const bool ahead = !job.end_s || *job.end_s > now_s + 1;
    const bool completing = job.state.find("COMPLETING") != std::string::npos;
    return completing && ahead ? fate::completing : fate::ended;
}

uint16_t parse_slurmd_port(std::string_view config) {
    while (!config.empty()) {
        std::string_view line = take_until(config, '\n');
        if (!line.starts_with("SlurmdPort ")) continue;
        line.remove_prefix(std::min(line.find('=') + 1, line.size()));
        const size_t begin = line.find_first_not_of(' ');
        const auto port = parse_number(begin == std::string_view::npos ? "" : line.substr(begin), UINT16_MAX);
        if (port && *port != 0) return static_cast<uint16_t>(*port);
    }
    return slurmd_port_default;
}

bad_nodes named_bad(std::string_view comment, const std::vector<std::string>& nodes) {
    constexpr std::string_view begin = "varde: ";
    bad_nodes found;
    if (!comment.starts_with(begin)) return found;
    comment.remove_prefix(begin.size());
    std::string_view names = take_until(comment, ' ');
    for (const std::string_view why : {"silent", "cut off", "failing"})
        if (comment.starts_with(why)) found.why = why;
    while (!found.why.empty() && !names.empty()) {
        const std::string name(take_until(names, ','));
        const bool known = std::find(nodes.begin(), nodes.end(), name) != nodes.end();
        if (known && std::find(found.names.begin(), found.names.end(), name) == found.names.end())
            found.names.push_back(name);
    }
    if (found.names.empty()) found.why = {};
    return found;
}

result<std::string> read_job_name(environment get) {
    const char* task = get("SLURM_ARRAY_TASK_ID");
    const char* array = get("SLURM_ARRAY_JOB_ID");
    const auto number_of = [&](const char* text) { return parse_number(text == nullptr ? "" : text, UINT32_MAX - 1); };
    if (task == nullptr || array == nullptr) {
        const auto job = number_of(get("SLURM_JOB_ID"));
        if (!job) return fail(code::invalid, "SLURM_JOB_ID is no job: " + job.error().context);
        return std::to_string(*job);
    }
    const auto array_id = number_of(array);
    const auto task_id = number_of(task);
    if (!array_id || !task_id) return fail(code::invalid, "SLURM_ARRAY_JOB_ID and SLURM_ARRAY_TASK_ID are no numbers");
    return std::to_string(*array_id) + "_" + std::to_string(*task_id);
}

std::string join(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
    return text;
}

result<std::string> slurm_tools::run(const char* name, std::vector<std::string> arguments) const {
    program what;
    what.arguments = {bin_directory_ + "/" + name};
    what.arguments.insert(what.arguments.end(), arguments.begin(), arguments.end());
    what.environment = environment_;
    what.timeout_ms = tool_ms;
    what.output_bytes_max = output_bytes_max;
    auto outcome = run_program(what);
    if (!outcome) return std::move(outcome).error();
    if (outcome->exit_status == 0) return std::move(outcome->output);
    return fail(code::unavailable, "'" + std::string(name) + " " + printable(arguments.front()) +
                                       "' failed: " + printable(outcome->output, 200));
}

result<std::optional<job_facts>> slurm_tools::job(const std::string& job) const {
    auto text = run("squeue", {"--noheader", "--states=all", "--jobs=" + job, "--format=%T|%e|%x|%k"});
    if (!text) {
        if (text.error().context.find("Invalid job id") != std::string::npos) return std::optional<job_facts>();
        return std::move(text).error();
    }
    std::string_view rest = *text;
    const std::string_view line = take_until(rest, '\n');
    if (line.empty()) return std::optional<job_facts>();
    auto found = parse_job(line);
    if (!found) return std::move(found).error();
    return std::optional<job_facts>(std::move(*found));
}

result<std::string> slurm_tools::pending_reason(const std::string& job) const {
    auto text = run("squeue", {"--noheader", "--jobs=" + job, "--format=%r"});
    if (!text) return std::move(text).error();
    std::string_view rest = *text;
    return std::string(take_until(rest, '\n'));
}

result<std::vector<std::string>> slurm_tools::expand(const std::string& node_list) const {
    if (node_list.empty() || !is_node_list(node_list))
        return fail(code::invalid, "'" + printable(node_list) + "' is no node list");
    auto text = run("scontrol", {"show", "hostnames", node_list});
    if (!text) return std::move(text).error();
    std::vector<std::string> names;
    std::string_view rest = *text;
    while (!rest.empty()) {
        const std::string_view name = take_until(rest, '\n');
        if (name.empty()) continue;
        if (!is_node_list(name)) return fail(code::damaged, "scontrol said '" + printable(name) + "' is a node");
        names.emplace_back(name);
    }
    return names;
}

result<std::vector<node_facts>> slurm_tools::nodes(const std::string& node_list) const {
    std::vector<std::string> arguments{"--oneliner", "show", "node"};
    if (!node_list.empty()) arguments.push_back(node_list);
    auto text = run("scontrol", std::move(arguments));
    if (!text) return std::move(text).error();
    return parse_nodes(*text);
}

result<uint16_t> slurm_tools::slurmd_port() const {
    auto text = run("scontrol", {"show", "config"});
    if (!text) return std::move(text).error();
    return parse_slurmd_port(*text);
}

result<void> slurm_tools::set_down(const std::vector<std::string>& nodes, const std::string& reason) const {
    auto text = run("scontrol", {"update", "NodeName=" + join(nodes), "State=DOWN", "Reason=" + reason});
    return text ? result<void>() : std::move(text).error();
}

result<void> slurm_tools::set_node_comment(const std::string& node, const std::string& comment) const {
    auto text = run("scontrol", {"update", "NodeName=" + node, "Comment=" + comment});
    return text ? result<void>() : std::move(text).error();
}

result<void> slurm_tools::release(const std::string& job) const {
    auto text = run("scontrol", {"release", job});
    return text ? result<void>() : std::move(text).error();
}

result<std::string> slurm_tools::extra(const std::string& job) const {
    auto text = run("scontrol", {"--oneliner", "show", "job", job});
    if (!text) return std::move(text).error();
    constexpr std::string_view key = " Extra=";
    const size_t at = text->find(std::string(key) + "varde: ");
    if (at == std::string::npos) return std::string();
    return text->substr(at + key.size(), text->find('\n', at) - at - key.size());
}

result<std::string> slurm_tools::running_on(const std::string& job) const {
    auto text = run("squeue", {"--noheader", "--states=running", "--jobs=" + job, "--format=%N"});
    if (!text) return std::move(text).error();
    std::string_view rest = *text;
    return std::string(take_until(rest, '\n'));
}

result<void> slurm_tools::update_job(const std::string& job, const std::string& assignment) const {
    auto text = run("scontrol", {"update", "JobId=" + job, assignment});
    return text ? result<void>() : std::move(text).error();
}

}  // namespace varde::controller
