// Programs of the host: how they end, and that none of them holds us longer than its time.
#include "forbid.h"
#include "base/clock.h"
#include "base/process.h"

#include <cerrno>
#include <criterion/criterion.h>
#include <functional>
#include <sys/wait.h>
#include <unistd.h>

using namespace varde;

namespace {

program shell(const std::string& script, int timeout_ms = 10'000) {
    program what;
    what.arguments = {"/bin/sh", "-c", script};
    what.environment = {"WORD=hello"};
    what.timeout_ms = timeout_ms;
    return what;
}

uint64_t took_ms(const std::function<void()>& work) {
    const uint64_t start = mono_ns();
    work();
    return (mono_ns() - start) / ns_per_ms;
}

int in_child(const std::function<int()>& work) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(work());
    int status = 0;
    cr_assert_eq(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Test(process, its_output_and_status_come_back) {
    const auto got = run_program(shell("echo $WORD; echo oops >&2; exit 3"));
    cr_assert(got.has_value(), "%s", got ? "" : got.error().context.c_str());
    cr_expect_eq(got->exit_status, 3);
    cr_expect(got->output == "hello\noops\n", "%s", got->output.c_str());
    const auto killed = run_program(shell("kill -TERM $$"));
    cr_expect(killed && killed->exit_status == 128 + SIGTERM);
    program loud = shell("head -c 100000 /dev/zero");
    loud.output_bytes_max = 10;
    const auto cut = run_program(loud);
    cr_expect(cut && cut->output.size() == 10 && cut->exit_status == 0);
}

Test(process, what_cannot_be_started_is_an_error) {
    program what;
    what.arguments = {"/nowhere/program"};
    const auto got = run_program(what);
    cr_assert(!got && got.error().what == code::not_found);
    cr_assert(got.error().context.find("'/nowhere/program'") != std::string::npos);
}

// With its output open, and closed.
Test(process, is_killed_at_its_deadline_with_its_children) {
    for (const char* script : {"sleep 30 & sleep 30", "exec >&- 2>&-; sleep 30"}) {
        const uint64_t ms = took_ms([&]() {
            const auto got = run_program(shell(script, 200));
            cr_assert(!got && got.error().what == code::timeout);
            cr_assert(got.error().context == "'/bin/sh' did not end within 200 ms and was killed", "%s",
                      got.error().context.c_str());
        });
        cr_expect(ms >= 199 && ms < 1000, "%lu ms", ms);
        cr_expect_eq(::waitpid(-1, nullptr, WNOHANG), -1, "nothing is left behind");
    }
}

Test(process, one_that_does_not_die_is_left_after_a_second) {
    const int status = in_child([]() {
        if (!test::forbid(SYS_kill, 0)) return 77;
        const uint64_t start = mono_ns();
        const auto got = run_program(shell("sleep 4", 100));
        const uint64_t ms = (mono_ns() - start) / ns_per_ms;
        if (got || got.error().what != code::timeout) return 1;
        if (got.error().context.find("hangs in the kernel") == std::string::npos) return 2;
        return ms >= 1000 && ms < 2500 ? 0 : 3;
    });
    if (status == 77) cr_skip_test("no seccomp here");
    cr_assert_eq(status, 0, "%d", status);
}

Test(process, without_a_pidfd_its_end_is_noticed_all_the_same) {
    const int status = in_child([]() {
        if (!test::forbid(SYS_pidfd_open, EMFILE)) return 77;
        const uint64_t start = mono_ns();
        const auto good = run_program(shell("exec >&- 2>&-; sleep 0.1; exit 5"));
        if (!good || good->exit_status != 5 || mono_ns() - start > 5 * ns_per_s) return 1;
        const uint64_t again = mono_ns();
        const auto late = run_program(shell("exec >&- 2>&-; sleep 30", 200));
        if (late || late.error().what != code::timeout) return 2;
        return mono_ns() - again < ns_per_s ? 0 : 3;
    });
    if (status == 77) cr_skip_test("no seccomp here");
    cr_assert_eq(status, 0, "%d", status);
}

Test(process, an_end_that_nobody_learns_is_an_error) {
    const int status = in_child([]() {
        ::signal(SIGCHLD, SIG_IGN);  // the kernel throws the status away
        const auto got = run_program(shell("exit 0"));
        return !got && got.error().os_errno == ECHILD ? 0 : 1;
    });
    cr_assert_eq(status, 0, "%d", status);
}
