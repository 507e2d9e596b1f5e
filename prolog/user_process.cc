// Signals, descriptors, identity.
#include "prolog/user_process.h"

#include <array>
#include <csignal>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace varde::node {

namespace {

constexpr int first_kept = 3;
constexpr int kept_max = 4;
constexpr int high = 10;  // beyond all numbers that are to be given

}  // namespace

void reset_signals() {
    for (int signal = 1; signal < NSIG; signal++)
        ::signal(signal, SIG_DFL);  // fails for SIGKILL, SIGSTOP: they cannot be set
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

bool arrange_descriptors(const int* kept, int count) {
    // Out of the way first: one of them may have the number of another.
    std::array<int, kept_max> moved{};
    if (count > kept_max) return false;
    for (int i = 0; i < count; i++)
        if ((moved[static_cast<size_t>(i)] = ::fcntl(kept[i], F_DUPFD, high)) < 0) return false;
    const int low_null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    const int null = low_null < 0 ? -1 : ::fcntl(low_null, F_DUPFD, high);
    // cppcheck-suppress resourceLeak ; the process ends if this fails, and the last line closes it if not
    if (null < 0) return false;
    // Nothing is closed by its number from here on: the numbers change their meaning.
    for (int stream = 0; stream < first_kept; stream++)
        if (::dup2(null, stream) < 0) return false;
    for (int i = 0; i < count; i++)
        if (::dup2(moved[static_cast<size_t>(i)], first_kept + i) < 0) return false;
    return ::syscall(SYS_close_range, first_kept + count, ~0U, 0) == 0;
}

bool become(uid_t uid, gid_t gid) {
    const passwd* entry = ::getpwuid(uid);
    const int grouped = entry != nullptr ? ::initgroups(entry->pw_name, gid) : ::setgroups(1, &gid);
    return grouped == 0 && ::setresgid(gid, gid, gid) == 0 && ::setresuid(uid, uid, uid) == 0 && ::setuid(0) != 0;
}

}  // namespace varde::node
