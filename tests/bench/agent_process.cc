// The agent's processes are found as children: of the bench, and of each other.
#include "agent_process.h"

#include "base/clock.h"
#include "base/process.h"

#include <csignal>
#include <fstream>
#include <sched.h>
#include <sstream>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace varde::bench {

namespace {

constexpr uint64_t start_wait_ms = 10'000;
constexpr uint64_t end_wait_ms = 20'000;
constexpr useconds_t look_us = 20'000;
constexpr useconds_t quiet_us = 300'000;
constexpr double quiet_s = 0.02;  // its clock has ticks of 10 ms
constexpr uint64_t quiet_wait_ms = 30'000;

std::vector<pid_t> children_of(pid_t parent) {
    const std::string process = "/proc/" + std::to_string(parent);
    std::ifstream list(process + "/task/" + std::to_string(parent) + "/children");
    std::vector<pid_t> found;
    for (pid_t child = 0; list >> child;) found.push_back(child);
    return found;
}

std::string name_of(pid_t process) {
    std::string name;
    std::getline(std::ifstream("/proc/" + std::to_string(process) + "/comm"), name);
    return name;
}

// The holder that has been started last, and its worker.
std::vector<pid_t> find_processes() {
    for (const pid_t holder : children_of(::getpid())) {
        if (!name_of(holder).starts_with("varde")) continue;
        const std::vector<pid_t> workers = children_of(holder);
        if (!workers.empty()) return {holder, workers.front()};
    }
    return {};
}

}  // namespace

result<void> on_cpu(int cpu, const std::function<result<void>()>& work) {
    cpu_set_t before, wanted;
    if (::sched_getaffinity(0, sizeof before, &before) != 0) return os_error(errno, "couldn't ask for the CPUs");
    CPU_ZERO(&wanted);
    if (cpu >= 0) CPU_SET(static_cast<size_t>(cpu), &wanted);
    if (cpu >= 0 && ::sched_setaffinity(0, sizeof wanted, &wanted) != 0)
        return os_error(errno, "couldn't run on CPU " + std::to_string(cpu));
    result<void> done = work();
    if (::sched_setaffinity(0, sizeof before, &before) != 0 && done) return os_error(errno, "couldn't run anywhere");
    return done;
}

result<agent_process> agent_process::start(const settings& with, uint64_t arena_bytes, int cpu) {
    if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return os_error(errno, "couldn't become a reaper");
    static unsigned number = 0;  // of the socket; the bench starts its agents from one thread
    agent_process made;
    made.socket_ = with.directory + "/agent-" + std::to_string(number++) + ".sock";
    program agent;
    agent.arguments = {with.program_directory + "/../../bin/varde-agent",
                       "--embedded",
                       "--socket",
                       made.socket_,
                       "--arena-bytes",
                       std::to_string(arena_bytes)};
    agent.arguments.insert(agent.arguments.end(), with.agent_options.begin(), with.agent_options.end());
    const result<void> started = on_cpu(cpu, [&]() -> result<void> {
        const result<program_outcome> ran = run_program(agent);
        if (!ran) return ran.error();
        if (ran->exit_status != 0) return fail(code::unavailable, "varde-agent: " + ran->output);
        return {};
    });
    if (!started) return started.error();
    const auto until = deadline::in_ms(start_wait_ms);
    for (; made.processes_.empty(); ::usleep(look_us)) {
        made.processes_ = find_processes();
        if (until.passed()) return fail(code::timeout, "couldn't find the processes of varde-agent");
    }
    return made;
}

agent_process::agent_process(agent_process&& other) noexcept
    : socket_(std::move(other.socket_)), processes_(std::exchange(other.processes_, {})) {}

agent_process::~agent_process() {
    if (processes_.empty()) return;
    for (const pid_t process : processes_) ::kill(process, SIGKILL);
    for (const pid_t process : processes_) ::waitpid(process, nullptr, 0);
}

double agent_process::cpu_s() const {
    double ticks = 0;
    for (const pid_t process : processes_) {
        std::string text;
        std::getline(std::ifstream("/proc/" + std::to_string(process) + "/stat"), text);
        std::istringstream fields(text.substr(text.rfind(')') + 1));
        std::string skipped;
        for (int field = 3; field < 14; ++field) fields >> skipped;
        double user = 0, system = 0;
        fields >> user >> system;
        ticks += user + system;
    }
    return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

uint64_t agent_process::memory_bytes() const {
    uint64_t total_kib = 0;
    for (const pid_t process : processes_) {
        std::ifstream status("/proc/" + std::to_string(process) + "/status");
        for (std::string word; status >> word;) {
            uint64_t kib = 0;
            if ((word == "RssAnon:" || word == "RssFile:") && status >> kib) total_kib += kib;
        }
    }
    return total_kib << 10;
}

result<void> agent_process::wait_until_quiet() const {
    const auto until = deadline::in_ms(quiet_wait_ms);
    for (double before = cpu_s();;) {
        ::usleep(quiet_us);
        const double now = cpu_s();
        if (now - before < quiet_s) return {};
        if (until.passed()) return fail(code::timeout, "varde-agent does not come to rest");
        before = now;
    }
}

result<void> agent_process::wait_for_end() {
    const auto until = deadline::in_ms(end_wait_ms);
    while (::waitpid(processes_.front(), nullptr, WNOHANG) == 0) {
        if (until.passed()) return fail(code::timeout, "varde-agent has not ended with its last rank");
        ::usleep(look_us);
    }
    processes_.clear();
    return {};
}

}  // namespace varde::bench
