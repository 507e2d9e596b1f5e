// Nodes for a step: choosing, and the words of srun, scontrol and sattach.
#include "cli/step_nodes.h"

#include "agent/slurm.h"
#include "base/limits.h"
#include "base/units.h"

#include <algorithm>
#include <array>

namespace varde::cli {

namespace {

// One argument of a program has 128 KiB at most; a step that needs more is placed by Slurm.
constexpr size_t list_bytes_max = 120'000;

bool is_in(std::span<const std::string> all, std::string_view one) {
    return std::find(all.begin(), all.end(), one) != all.end();
}

std::string join(std::span<const std::string> names) {
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : ",") + name;
    return all;
}

// One host per rank, in the order of the ranks; empty where the ranks are not known.
std::vector<std::string> host_of_ranks(std::span<const step_node> nodes) {
    std::vector<std::string> hosts;
    for (const step_node& node : nodes) {
        for (const uint32_t rank : node.ranks) {
            if (rank >= hosts.size()) hosts.resize(rank + 1);
            hosts[rank] = node.host;
        }
    }
    return std::any_of(hosts.begin(), hosts.end(), [](const std::string& host) { return host.empty(); })
               ? std::vector<std::string>()
               : hosts;
}

// srun's options that have no value of their own in the next argument (srun(1) of 22.05 to 25.05).
constexpr std::array<std::string_view, 36> flags{
    "-E",          "--preserve-env",      "-H",           "--hold",
    "-I",          "--immediate",         "-K",           "--kill-on-bad-exit",
    "-k",          "--no-kill",           "-l",           "--label",
    "-O",          "--overcommit",        "-Q",           "--quiet",
    "-s",          "--oversubscribe",     "-u",           "--unbuffered",
    "-v",          "--verbose",           "-X",           "--disable-status",
    "-Z",          "--no-allocate",       "--contiguous", "--exact",
    "--exclusive", "--interactive",       "--multi-prog", "--overlap",
    "--pty",       "--quit-on-interrupt", "--spread-job", "--whole"};
constexpr std::array<std::string_view, 4> long_node_options{"--nodelist", "--exclude", "--relative", "--nodefile"};
constexpr std::array<std::string_view, 4> short_node_options{"-w", "-x", "-r", "-F"};

bool names_nodes(std::string_view argument) {
    if (argument.starts_with("--")) {
        const std::string_view name = argument.substr(0, argument.find('='));
        return std::find(long_node_options.begin(), long_node_options.end(), name) != long_node_options.end();
    }
    const std::string_view name = argument.substr(0, 2);
    return std::find(short_node_options.begin(), short_node_options.end(), name) != short_node_options.end();
}

bool takes_next(std::string_view argument) {
    const bool whole = argument.starts_with("--") ? argument.find('=') == std::string_view::npos : argument.size() == 2;
    return whole && std::find(flags.begin(), flags.end(), argument) == flags.end();
}

// Cuts the next line off.
std::string_view take_line(std::string_view& text) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return line;
}

// "\tNode 1 (node2), 2 task(s): 2 3 "
result<step_node> parse_layout_line(std::string_view line) {
    const std::string_view name = line.substr(0, line.find(','));
    const size_t open = name.find('(');
    const size_t close = name.find(')');
    const size_t colon = line.find("task(s):");
    if (open == std::string_view::npos || close == std::string_view::npos || close < open ||
        colon == std::string_view::npos)
        return fail(code::invalid, "couldn't read sattach's layout: '" + std::string(line.substr(0, 80)) + "'");
    step_node node{std::string(line.substr(open + 1, close - open - 1)), {}};
    std::string_view rest = line.substr(colon + 8);
    while (!rest.empty()) {
        const std::string_view word = rest.substr(0, rest.find(' '));
        rest.remove_prefix(std::min(word.size() + 1, rest.size()));
        if (word.empty()) continue;
        const auto rank = parse_number(word, limits::world_max - 1);
        if (!rank) return fail(code::invalid, "couldn't read sattach's layout: " + rank.error().context);
        node.ranks.push_back(static_cast<uint32_t>(*rank));
    }
    return node;
}

}  // namespace

result<std::vector<step_node>> replace_nodes(std::span<const step_node> last, std::span<const std::string> usable) {
    std::vector<std::string> spares;
    for (const std::string& host : usable) {
        const bool was_there =
            std::any_of(last.begin(), last.end(), [&](const step_node& node) { return node.host == host; });
        if (!was_there) spares.push_back(host);
    }
    std::vector<step_node> next(last.begin(), last.end());
    size_t used = 0;
    for (step_node& node : next) {
        if (is_in(usable, node.host)) continue;
        if (used == spares.size())
            return fail(code::no_space, "the step needs " + std::to_string(last.size()) + " nodes, and of the job's " +
                                            std::to_string(usable.size()) + " can be used");
        node.host = spares[used++];
    }
    return next;
}

std::vector<std::string> place_options(std::span<const step_node> nodes, std::span<const std::string> usable) {
    std::vector<std::string> hosts;
    for (const std::string& host : usable) {
        const auto node =
            std::find_if(nodes.begin(), nodes.end(), [&](const step_node& one) { return one.host == host; });
        if (node != nodes.end()) hosts.push_back(host);
    }
    const bool in_order = std::equal(nodes.begin(), nodes.end(), hosts.begin(), hosts.end(),
                                     [](const step_node& node, const std::string& host) { return node.host == host; });
    // The step of before holds its part of the nodes until Slurm has given up the dead one.
    std::vector<std::string> options{"--overlap"};
    const std::string by_rank = in_order ? std::string() : join(host_of_ranks(nodes));
    if (by_rank.empty() || by_rank.size() > list_bytes_max) {
        options.push_back("--nodelist=" + join(hosts));
        return options;
    }
    options.insert(options.end(), {"--distribution=arbitrary", "--nodelist=" + by_rank});
    return options;
}

std::string find_node_option(std::span<const std::string> arguments) {
    for (size_t i = 1; i < arguments.size(); i++) {
        const std::string& argument = arguments[i];
        if (argument.size() < 2 || argument[0] != '-' || argument == "--") break;  // the program
        if (names_nodes(argument)) return argument;
        if (takes_next(argument)) i++;
    }
    return {};
}

result<running_step> find_step(std::string_view output, std::string_view host, uint64_t process_id) {
    const std::string wanted = std::string(host) + ":" + std::to_string(process_id);
    while (!output.empty()) {
        const std::string line(take_line(output));
        if (agent::field_of(line, "SrunHost:Pid") != wanted) continue;
        const std::string id = agent::field_of(line, "StepId");
        const auto number = parse_number(std::string_view(id).substr(id.rfind('.') + 1), UINT32_MAX);
        if (!number) break;  // "7.TBD": it waits for its nodes
        return running_step{static_cast<uint32_t>(*number), agent::field_of(line, "NodeList")};
    }
    return fail(code::not_found, "Slurm shows no step of srun " + wanted + " yet");
}

result<std::vector<step_node>> parse_layout(std::string_view output) {
    std::vector<step_node> nodes;
    while (!output.empty()) {
        const std::string_view line = take_line(output);
        if (line.find("Node ") == std::string_view::npos || line.find("task(s)") == std::string_view::npos) continue;
        auto node = parse_layout_line(line);
        if (!node) return node.error();
        nodes.push_back(std::move(*node));
    }
    const bool whole =
        std::none_of(nodes.begin(), nodes.end(), [](const step_node& node) { return node.ranks.empty(); });
    if (nodes.empty() || !whole) return fail(code::invalid, "sattach shows no layout");
    // A step that was placed by rank has its nodes in Slurm's order all the same.
    std::sort(nodes.begin(), nodes.end(),
              [](const step_node& a, const step_node& b) { return a.ranks.front() < b.ranks.front(); });
    return nodes;
}

}  // namespace varde::cli
