// Where the lines of prolog, epilog and controller hook go.  Root, for a /dev/log of the test's own.
#include "prolog/log.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <string>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

using namespace varde::node;

// What the host's log gets in place of the host.
static int own_log() {
    cr_assert_eq(::geteuid(), 0, "this test needs root");
    cr_assert_eq(::unshare(CLONE_NEWNS), 0);
    cr_assert_eq(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
    cr_assert_eq(::mount("none", "/dev", "tmpfs", 0, nullptr), 0);
    const sockaddr_un address{AF_UNIX, "/dev/log"};
    const int log = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    cr_assert_eq(::bind(log, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return log;
}

static std::string next_line(int log) {
    char line[8192];
    const ssize_t got = ::recv(log, line, sizeof line, 0);
    return got < 0 ? "" : std::string(line, static_cast<size_t>(got));
}

Test(log, a_line_reaches_the_hosts_log) {
    const int log = own_log();
    open_log("varde-controller", "7_3");
    log_line(LOG_ERR, "couldn't ask");
    cr_assert(next_line(log) == "<27>varde-controller[" + std::to_string(::getpid()) + "]: job 7_3: couldn't ask");
    log_line(LOG_ERR, std::string(100'000, 'x'));
    const std::string cut = next_line(log);
    cr_assert(cut.size() == 1999 && cut.ends_with("xxx"), "%zu bytes", cut.size());
}

Test(log, a_log_that_is_full_is_not_waited_for, .timeout = 60) {
    const int log = own_log();
    open_log("varde-prolog", "");
    for (int i = 0; i < 10'000; i++) log_line(LOG_ERR, std::string(1000, 'x'));
    int count = 0;
    while (!next_line(log).empty()) count++;
    cr_assert(count > 0 && count < 10'000, "%d lines", count);
}

// Words of a user may be quoted in it.
Test(log, a_line_stays_one_line) {
    const int log = own_log();
    open_log("varde-prolog", "7");
    log_line(LOG_ERR, "a\nAug 1 sshd: root logged in\r\x1b[2J\x7f b\xc3\xa9");
    const std::string line = next_line(log);
    cr_assert(line.ends_with("]: job 7: a?Aug 1 sshd: root logged in??[2J? b\xc3\xa9"), "%s", line.c_str());
    cr_assert(next_line(log).empty());
}
