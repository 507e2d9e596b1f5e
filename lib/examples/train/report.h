// What the example says: lines for people on stdout and stderr, each written whole and at once,
// because all ranks of a job share one output file.  One thread.
#pragma once

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

namespace train {

inline void complain(const char* format, va_list arguments) {
    char text[1024];
    std::vsnprintf(text, sizeof(text), format, arguments);
    std::fprintf(stderr, "train: %s\n", text);
}

// "train: TEXT" on stderr.
[[gnu::format(printf, 1, 2)]] inline void warn(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    complain(format, arguments);
    va_end(arguments);
}

// The same, and the end.  A training program has nothing to save when it fails: its checkpoints are
// elsewhere.  _Exit, so that nothing (a destructor that talks to a dead peer) stands between the
// failure and the end.
[[noreturn, gnu::format(printf, 1, 2)]] inline void die(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    complain(format, arguments);
    va_end(arguments);
    std::fflush(stdout);
    std::_Exit(1);
}

// Why the last system call failed.
inline const char* reason() noexcept { return std::strerror(errno); }

// "2026-11-30T10:20:03.123Z": the moment of a step, for whoever measures how long a restart took.
inline std::string wall_time() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    tm utc{};
    ::gmtime_r(&now.tv_sec, &utc);
    char date[32];
    std::strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &utc);
    char text[48];
    std::snprintf(text, sizeof(text), "%s.%03ldZ", date, now.tv_nsec / 1'000'000);
    return text;
}

}  // namespace train
