// The child that may die.
#include "topo/trial.h"

#include "base/clock.h"
#include "base/handle.h"
#include "base/process.h"
#include "topo/text_file.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

namespace varde::topo {

namespace {

constexpr uint64_t slack_ms = 200;
constexpr rlim_t memory_bytes = 1ULL << 30;
constexpr size_t answer_bytes_max = 64U << 20;

// Bytes of address space that this process has: the limit counts them all, and sanitizers have terabytes.
rlim_t address_space_bytes() {
    unsigned long pages = 0;
    std::FILE* file = std::fopen("/proc/self/statm", "re");
    if (file == nullptr) return 0;
    const bool known = std::fscanf(file, "%lu", &pages) == 1;
    discard(std::fclose(file), "it was only read");
    return known ? pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

// An answer begins with a letter that says whether it is an error.
constexpr char good = '+';
constexpr char bad = '-';

[[noreturn]] void answer(const std::function<result<std::string>()>& make, input what, unsigned time_s, int out,
                         int words_out) {
    ::dup2(words_out, STDERR_FILENO);
    sigset_t none;
    sigemptyset(&none);
    discard(::sigprocmask(SIG_SETMASK, &none, nullptr), "then only the parent's clock ends it");
    for (const int each : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM}) std::signal(each, SIG_DFL);
    const rlimit no_core{0, 0};
    discard(::setrlimit(RLIMIT_CORE, &no_core), "a core file would only be in the way");
    const rlim_t before = what == input::of_anybody ? address_space_bytes() : 0;
    if (before != 0) {
        const rlimit memory{before + memory_bytes, before + memory_bytes};
        discard(::setrlimit(RLIMIT_AS, &memory), "time is limited as well");
    }
    ::alarm(time_s);
    const auto made = make();
    const bool whole = write_all(out, made ? good + *made : bad + made.error().context).has_value();
    ::_exit(whole ? 0 : 1);
}

// A driver that hangs holds even a process that was killed; it is left behind then.
result<int> wait_bounded(pid_t child, unsigned time_s) {
    auto status = wait_end(child, deadline::in_ms(uint64_t{time_s} * 1000 + slack_ms));
    if (status) return status;
    ::kill(child, SIGKILL);
    status = wait_end(child, deadline::in_ms(slack_ms));
    if (status) return status;
    return fail(code::timeout, "hwloc has not answered within " + std::to_string(time_s) +
                                   " s; a device or a driver of this machine hangs");
}

}  // namespace

result<std::string> in_child(const std::function<result<std::string>()>& make, input what, unsigned time_s) {
    const unique_fd out(::memfd_create("answer", MFD_CLOEXEC));
    const unique_fd words_out(::memfd_create("words", MFD_CLOEXEC));
    if (!out || !words_out) return os_error(errno, "couldn't hold what hwloc finds");
    discard(std::fflush(nullptr), "the child has a copy of what is not written yet");
    const pid_t child = ::fork();
    if (child < 0) return os_error(errno, "couldn't start a child that asks hwloc");
    if (child == 0) answer(make, what, time_s, out.get(), words_out.get());
    const auto status = wait_bounded(child, time_s);
    if (!status) return status.error();
    const auto answered = read_all(out.get(), answer_bytes_max, "couldn't read what hwloc finds");
    const auto words_read = read_all(words_out.get(), answer_bytes_max, "couldn't read what hwloc says");
    if (!WIFEXITED(*status) || WEXITSTATUS(*status) != 0 || !answered || answered->empty())
        return fail(code::damaged, "hwloc ended the process that asked it");
    if (what == input::of_anybody && (!words_read || !words_read->empty()))
        return fail(code::damaged, "hwloc finds it inconsistent");
    if (answered->front() == bad) return fail(code::damaged, answered->substr(1));
    return answered->substr(1);
}

}  // namespace varde::topo
