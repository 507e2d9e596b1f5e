// The agent's log: syslog for the administrator, a file in the run's directory for the training engineer.
//
// Lines go to syslog at once (a datagram, it does not wait).  The file may lie on storage that hangs, so lines are kept
// here and written by whoever calls flush(), the keeper thread.  Any thread may write.
#pragma once

#include "base/handle.h"
#include "base/result.h"

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

namespace varde::agent {

enum class level { info, warning, error };

// A wall-clock time for people, in the host's zone; `format` as for strftime.
std::string local_time(uint64_t wall_ns, const char* format);

class logger {
public:
    // `name` goes in front of each line: "job 7 node 3".
    explicit logger(std::string name);
    void rename(std::string name);

    void write(level how, const std::string& line);
    void info(const std::string& line) { write(level::info, line); }
    void warning(const std::string& line) { write(level::warning, line); }
    void error(const std::string& line) { write(level::error, line); }

    // Sends the lines kept so far to `fd` (the run's log file); at most lines_kept_max are kept while nobody does.
    void flush(int fd);
    bool pending() const;

private:
    static constexpr size_t lines_kept_max = 1000;
    mutable std::mutex mutex_;
    std::string name_;
    std::deque<std::string> lines_;
};

}  // namespace varde::agent
