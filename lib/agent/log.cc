// Formatting and keeping of log lines.
#include "agent/log.h"

#include "base/clock.h"

#include <ctime>
#include <syslog.h>
#include <unistd.h>

namespace varde::agent {

namespace {

std::string stamp() {
    const uint64_t now = wall_ns();
    char thousandths[8];
    ::snprintf(thousandths, sizeof thousandths, ".%03u", static_cast<unsigned>(now / ns_per_ms % 1000));
    return local_time(now, "%Y-%m-%dT%H:%M:%S") + thousandths;
}

int priority(level how) {
    switch (how) {
    case level::info: return LOG_INFO;
    case level::warning: return LOG_WARNING;
    case level::error: return LOG_ERR;
    }
    return LOG_ERR;
}

}  // namespace

std::string local_time(uint64_t wall_ns, const char* format) {
    const auto seconds = static_cast<time_t>(wall_ns / ns_per_s);
    tm parts{};
    ::localtime_r(&seconds, &parts);
    char text[48];
    return std::string(text, ::strftime(text, sizeof text, format, &parts));
}

logger::logger(std::string name) : name_(std::move(name)) { ::openlog("varde-agent", LOG_PID | LOG_NDELAY, LOG_USER); }

void logger::rename(std::string name) {
    const std::lock_guard guard(mutex_);
    name_ = std::move(name);
}

void logger::write(level how, const std::string& line) {
    const std::lock_guard guard(mutex_);
    ::syslog(priority(how), "%s: %s", name_.c_str(), line.c_str());
    static constexpr const char* names[] = {"info", "warning", "error"};
    if (lines_.size() == lines_kept_max) lines_.pop_front();
    lines_.push_back(stamp() + " " + names[static_cast<int>(how)] + " " + name_ + ": " + line + "\n");
}

void logger::flush(int fd) {
    std::string block;
    {
        const std::lock_guard guard(mutex_);
        for (const auto& line : lines_) block += line;
        lines_.clear();
    }
    // The log of a run is a help, not a promise: what cannot be written is still in syslog.
    if (!block.empty()) discard(static_cast<int>(::write(fd, block.data(), block.size())), "syslog has the lines");
}

bool logger::pending() const {
    const std::lock_guard guard(mutex_);
    return !lines_.empty();
}

}  // namespace varde::agent
