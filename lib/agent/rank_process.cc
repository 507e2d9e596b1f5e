// /proc/PID/stat and status.
#include "agent/rank_process.h"

#include "base/clock.h"
#include "base/units.h"
#include "store/files.h"

#include <fcntl.h>
#include <unistd.h>

namespace varde::agent {

namespace {

constexpr size_t text_bytes_max = 16'384;
constexpr int user_field = 11;  // after the state: utime and stime, in ticks

// Empty where the process has ended.
std::string proc_text(const std::string& path) {
    auto text = store::files::read_text(AT_FDCWD, path, text_bytes_max, path);
    return text ? std::move(*text) : std::string();
}

}  // namespace

rank_process parse_process(const std::string& stat, const std::string& status, uint64_t ticks_per_s) {
    rank_process found;
    const size_t name_end = stat.rfind(')');  // a process may call itself anything
    if (name_end == std::string::npos || name_end + 2 >= stat.size() || ticks_per_s == 0) return found;
    found.state = stat[name_end + 2];
    size_t at = name_end + 2;
    for (int index = 0; index <= user_field + 1 && at < stat.size(); index++) {
        const std::string field = stat.substr(at, stat.find(' ', at) - at);
        at += field.size() + 1;
        if (index < user_field) continue;
        if (const auto ticks = parse_number(field)) found.processor_ns += *ticks * (ns_per_s / ticks_per_s);
    }
    found.there = found.state != 'Z' && found.state != 'X';
    const std::string mark = "TracerPid:\t";
    const size_t tracer = status.find(mark);
    found.traced = found.state == 't' || (tracer != std::string::npos && status[tracer + mark.size()] != '0');
    return found;
}

rank_process look_at_process(pid_t pid) {
    const std::string directory = "/proc/" + std::to_string(pid);
    return parse_process(proc_text(directory + "/stat"), proc_text(directory + "/status"),
                         static_cast<uint64_t>(::sysconf(_SC_CLK_TCK)));
}

}  // namespace varde::agent
