// scontrol, sattach, scancel, and connections to slurmd.
#include "cli/allocation.h"

#include "base/process.h"
#include "base/slurmd_probe.h"
#include "base/units.h"

#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <spawn.h>

namespace varde::cli {

namespace {

constexpr int ask_ms = 10'000;
// A SYN that is lost is sent again after one second, and after three.  Who refuses may be restarting, but a step that
// waits for it gains nothing over one on a spare.
constexpr probe_limits reach{.silent_ms = 3'000, .refused_ms = 1'000};

std::vector<std::string> environment_for_slurm() {
    std::vector<std::string> environment{"PATH=/usr/bin:/bin", "LC_ALL=C"};
    if (const char* conf = std::getenv("SLURM_CONF")) environment.push_back(std::string("SLURM_CONF=") + conf);
    return environment;
}

std::vector<std::string> lines_of(std::string_view text) {
    std::vector<std::string> lines;
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size());
        if (end > 0) lines.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
}

}  // namespace

bool is_up(const node_facts& node) noexcept {
    for (const char* word : {"DOWN", "*", "NOT_RESPONDING", "FAIL", "POWER", "REBOOT", "UNKNOWN"})
        if (node.state.find(word) != std::string::npos) return false;
    return !node.state.empty();
}

result<std::string> allocation::ask(const char* name, std::vector<std::string> arguments) const {
    program what;
    what.arguments = {bin_directory_ + "/" + name};
    what.arguments.insert(what.arguments.end(), arguments.begin(), arguments.end());
    what.environment = environment_for_slurm();
    what.timeout_ms = ask_ms;
    auto outcome = run_program(what);
    if (!outcome) return outcome.error();
    if (outcome->exit_status != 0)
        return fail(code::unavailable, "'" + std::string(name) + "' failed: " + outcome->output.substr(0, 300));
    return std::move(outcome->output);
}

result<std::vector<std::string>> allocation::expand(const std::string& node_list) const {
    auto output = ask("scontrol", {"show", "hostnames", node_list});
    if (!output) return output.error();
    return lines_of(*output);
}

result<allocation::step> allocation::find(pid_t process, const std::string& host) const {
    auto output = ask("scontrol", {"--oneliner", "show", "step", std::to_string(job_id_)});
    if (!output) return output.error();
    const auto found = find_step(*output, host, static_cast<uint64_t>(process));
    if (!found) return found.error();
    step running{found->number, {}};
    auto layout = ask("sattach", {"--layout", std::to_string(job_id_) + "." + std::to_string(running.number)});
    auto nodes = layout ? parse_layout(*layout) : result<std::vector<step_node>>(layout.error());
    if (nodes) {
        running.nodes = std::move(*nodes);
        return running;
    }
    auto hosts = expand(found->node_list);  // then ranks may move, and more is read from storage
    if (!hosts) return hosts.error();
    for (std::string& name : *hosts) running.nodes.push_back({std::move(name), {}});
    return running;
}

result<std::vector<std::string>> allocation::usable_nodes(const std::vector<std::string>& dead) const {
    auto shown = ask("scontrol", {"--oneliner", "show", "job", std::to_string(job_id_)});
    if (!shown) return shown.error();
    // After the job's name, which may look like anything.
    const std::string line = agent::line_of_job(*shown, job_id_);
    const size_t after_name = line.rfind(" MCS_label=");
    const std::string list =
        agent::field_of(after_name == std::string::npos ? line : line.substr(after_name), "NodeList");
    if (list.empty() || list == "(null)") return fail(code::unavailable, "scontrol shows no nodes of the job");
    auto output = ask("scontrol", {"--oneliner", "show", "node", list});
    if (!output) return output.error();
    auto nodes = parse_nodes(*output);
    std::erase_if(nodes, [&](const node_facts& node) {
        return !is_up(node) || std::find(dead.begin(), dead.end(), node.name) != dead.end();
    });
    // A node that died a moment ago looks well to Slurm.
    const auto seen = look_at(nodes, slurmd_port_default, reach);
    std::vector<std::string> names;
    for (size_t i = 0; i < nodes.size(); i++)
        if (seen[i] == sight::answered) names.push_back(nodes[i].name);
    return names;
}

result<void> allocation::kill_step(uint32_t number) const {
    std::vector<std::string> arguments{bin_directory_ + "/scancel", "--signal=KILL",
                                       std::to_string(job_id_) + "." + std::to_string(number)};
    const auto environment = environment_for_slurm();
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    for (const int stream : {0, 1, 2})
        ::posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", stream == 0 ? O_RDONLY : O_WRONLY, 0);
    pid_t pid = -1;
    const int failed = ::posix_spawn(&pid, arguments[0].c_str(), &actions, nullptr, pointers(arguments).data(),
                                     pointers(environment).data());
    ::posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) return os_error(failed, "couldn't start '" + arguments[0] + "'");
    return {};
}

}  // namespace varde::cli
