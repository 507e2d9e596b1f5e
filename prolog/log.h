// One line for the administrator: to the journal, and to stderr for who runs the program by hand (slurmd drops it).
#pragma once

#include <string>

namespace varde::node {

// Sets the program's name and the job of every further line.  Call once, early.
void open_log(const char* program, const std::string& job);

// Never waits: a line that a hung journal does not take is dropped, because a prolog that hangs would hold up the job.
void log_line(int priority, const std::string& line);

}  // namespace varde::node
