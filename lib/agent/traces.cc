// /proc of the ranks' threads, and the programs that show stacks.
#include "agent/traces.h"

#include "base/process.h"
#include "store/files.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <thread>
#include <unistd.h>

namespace varde::agent {

namespace {

constexpr size_t text_bytes_max = 16'384;
constexpr size_t threads_max = 64;             // a rank of PyTorch has about as many
constexpr size_t trace_bytes_max = 256 << 10;  // of one rank
constexpr int trace_ms_max = 10'000;           // a debugger reads the symbols of a few GiB of libraries first
constexpr int settle_looks = 20;
constexpr auto settle_look = std::chrono::milliseconds(50);

// The tracer is the first to go where memory is short, and has a bound of its own: it shares the agent's control group,
// and the agent holds the checkpoint.
constexpr const char* careful = "echo 1000 >/proc/self/oom_score_adj; ulimit -v 8388608; exec \"$@\"";

std::string line_of(const std::string& path) {
    auto text = store::files::read_text(AT_FDCWD, path, text_bytes_max, path);
    if (!text) return "(not shown)";
    while (!text->empty() && text->back() == '\n') text->pop_back();
    return std::move(*text);
}

std::vector<std::string> threads_of(const std::string& process) {
    std::vector<std::string> found;
    const std::unique_ptr<DIR, int (*)(DIR*)> list(::opendir((process + "/task").c_str()), ::closedir);
    if (list == nullptr) return found;
    while (const dirent* entry = ::readdir(list.get())) {
        if (entry->d_name[0] != '.') found.emplace_back(entry->d_name);
    }
    std::sort(found.begin(), found.end(),
              [](const auto& a, const auto& b) { return a.size() != b.size() ? a.size() < b.size() : a < b; });
    return found;
}

std::string describe_threads(pid_t pid) {
    const std::string process = "/proc/" + std::to_string(pid);
    const auto threads = threads_of(process);
    std::string text;
    for (size_t i = 0; i < std::min(threads.size(), threads_max); i++) {
        const std::string thread = process + "/task/" + threads[i];
        const std::string stat = line_of(thread + "/stat");
        const size_t name_end = stat.rfind(')');
        const bool sound = name_end != std::string::npos && name_end + 2 < stat.size();
        text += "  thread " + threads[i] + " '" + line_of(thread + "/comm") + "' state " +
                (sound ? stat.substr(name_end + 2, 1) : "?") + ", waits in " + line_of(thread + "/wchan") +
                ", system call " + line_of(thread + "/syscall") + "\n";
    }
    if (threads.size() > threads_max) text += "  and " + std::to_string(threads.size() - threads_max) + " more\n";
    return text;
}

// Whatever has become of the tracer: the process was not stopped before, and is not now.
void let_go_on(pid_t pid) {
    for (int i = 0; i < settle_looks; i++) {
        const auto now = look_at_process(pid);
        if (now.there && now.stopped()) {
            discard(::kill(pid, SIGCONT), "it has ended");
            return;
        }
        if (!now.traced) return;
        std::this_thread::sleep_for(settle_look);
    }
}

std::string trace(pid_t pid, const tracer& with, const deadline& until) {
    program what;
    what.arguments = {"/bin/sh", "-c", careful, "sh"};
    for (const auto& argument : with.arguments)
        what.arguments.push_back(argument == "PID" ? std::to_string(pid) : argument);
    what.environment = {"PATH=/usr/bin:/bin", "LC_ALL=C", "HOME=/nonexistent"};
    what.timeout_ms = until.left_ms(trace_ms_max);
    what.output_bytes_max = trace_bytes_max;
    const auto shown = run_program(what);
    let_go_on(pid);
    const std::string title = "stacks, by " + with.arguments[0] + ":\n";
    return shown ? title + shown->output : title + shown.error().context + "\n";
}

}  // namespace

std::vector<tracer> host_tracers() {
    return {{{"/usr/bin/eu-stack", "-n", "64", "-p", "PID"}},
            {{"/usr/bin/gdb", "-p", "PID", "-batch", "-nx", "-iex", "set debuginfod enabled off", "-iex",
              "set auto-load off", "-ex", "thread apply all backtrace 64"}}};
}

void look_twice(std::vector<rank_look>& ranks, uint64_t look_ms) {
    for (auto& rank : ranks) rank.used_ns = rank.gone ? 0 : look_at_process(rank.pid).processor_ns;
    std::this_thread::sleep_for(std::chrono::milliseconds(look_ms));
    for (auto& rank : ranks) {
        if (rank.gone) continue;
        rank.process = look_at_process(rank.pid);
        const uint64_t used_ns = rank.process.processor_ns;
        rank.used_ns = used_ns > rank.used_ns ? used_ns - rank.used_ns : 0;
    }
}

std::string describe(const rank_look& rank, const std::vector<tracer>& tracers, const deadline& until) {
    std::string text = "rank " + std::to_string(rank.rank) + ", pid " + std::to_string(rank.pid) + ", step " +
                       std::to_string(rank.step) + "\n";
    if (rank.gone || !rank.process.there) return text + "  its process has ended without closing the run\n\n";
    text += std::string("  state ") + rank.process.state + ", " + std::to_string(rank.used_ns / ns_per_ms) +
            " ms of processor time while it was looked at\n" + describe_threads(rank.pid);
    if (rank.process.stopped() || rank.process.traced)
        return text + "no stacks: it is stopped or traced already, and that is left as it is\n\n";
    const auto there = std::find_if(tracers.begin(), tracers.end(),
                                    [](const tracer& one) { return ::access(one.arguments[0].c_str(), X_OK) == 0; });
    if (there == tracers.end())
        return text + "no stacks: install elfutils (eu-stack) or gdb on the nodes to have them here\n\n";
    if (until.passed()) return text + "no stacks: there was no time left for them\n\n";
    return text + trace(rank.pid, *there, until) + "\n";
}

}  // namespace varde::agent
