// One line for the administrator: to the host's log (/dev/log: the journal, or a syslog daemon), and to stderr for who
// runs the program by hand (Slurm drops it).
#pragma once

#include <string>
#include <string_view>

namespace varde::node {

// Sets the program's name and the job of every further line.  Call once, early.
void open_log(const char* program, const std::string& job);

// Never waits: a line that a hung log does not take is dropped, because a prolog that hangs would hold up the job.
// Takes no memory, so that want of it can be said.  What is longer than 2,000 bytes is cut; control characters become
// '?'.
void log_line(int priority, std::string_view line) noexcept;

}  // namespace varde::node
