// scontrol, sattach, scancel, and connections to slurmd.
#include "cli/allocation.h"

#include "base/clock.h"
#include "base/handle.h"
#include "base/process.h"
#include "base/units.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>

namespace varde::cli {

namespace {

constexpr int ask_ms = 10'000;
constexpr int reach_ms = 3'000;  // a SYN that is lost is sent again after one second, and after three
constexpr uint64_t slurmd_port = 6818;

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

// A connection under way to the node's slurmd; empty where there is no address.
unique_fd begin_connection(const node_state& node) {
    addrinfo wanted{};
    wanted.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (::getaddrinfo(node.address.c_str(), std::to_string(node.port).c_str(), &wanted, &found) != 0) return {};
    unique_fd socket(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const bool begun =
        socket && (::connect(socket.get(), found->ai_addr, found->ai_addrlen) == 0 || errno == EINPROGRESS);
    ::freeaddrinfo(found);
    return begun ? std::move(socket) : unique_fd();
}

bool is_connected(int socket) {
    int error = 0;
    socklen_t size = sizeof error;
    return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

}  // namespace

std::vector<node_state> parse_node_states(std::string_view output) {
    std::vector<node_state> nodes;
    for (const std::string& line : lines_of(output)) {
        node_state node{agent::field_of(line, "NodeName"), agent::field_of(line, "NodeAddr"), 0,
                        agent::field_of(line, "State")};
        if (node.name.empty()) continue;
        if (node.address.empty()) node.address = node.name;
        const auto port = parse_number(agent::field_of(line, "Port"), UINT16_MAX);
        node.port = static_cast<uint16_t>(port && *port != 0 ? *port : slurmd_port);
        nodes.push_back(std::move(node));
    }
    return nodes;
}

// A node that is to be drained still runs what its job starts.
bool is_up(const node_state& node) noexcept {
    for (const char* word : {"DOWN", "*", "NOT_RESPONDING", "FAIL", "POWER", "REBOOT", "UNKNOWN"})
        if (node.state.find(word) != std::string::npos) return false;
    return !node.state.empty();
}

std::vector<std::string> reachable(const std::vector<node_state>& nodes, int timeout_ms) {
    const auto until = deadline::in_ms(static_cast<uint64_t>(timeout_ms));
    std::vector<unique_fd> sockets;
    std::vector<pollfd> waited;
    for (const node_state& node : nodes) {
        sockets.push_back(begin_connection(node));
        waited.push_back({sockets.back().get(), POLLOUT, 0});  // one that is -1 is passed over
    }
    std::vector<bool> answered(nodes.size(), false);
    for (size_t open = nodes.size(); open > 0 && !until.passed();) {
        if (::poll(waited.data(), waited.size(), until.left_ms()) <= 0) continue;
        open = 0;
        for (size_t i = 0; i < nodes.size(); i++) {
            if (waited[i].fd >= 0 && waited[i].revents != 0) {
                answered[i] = is_connected(waited[i].fd);
                waited[i].fd = -1;
            }
            open += waited[i].fd >= 0 ? size_t{1} : 0;
        }
    }
    std::vector<std::string> names;
    for (size_t i = 0; i < nodes.size(); i++)
        if (answered[i]) names.push_back(nodes[i].name);
    return names;
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
    auto nodes = parse_node_states(*output);
    std::erase_if(nodes, [&](const node_state& node) {
        return !is_up(node) || std::find(dead.begin(), dead.end(), node.name) != dead.end();
    });
    return reachable(nodes, reach_ms);
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
