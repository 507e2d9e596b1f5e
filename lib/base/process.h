// Runs a program of the host with a deadline and a bounded output: scontrol, squeue.  Blocking; any thread.
#pragma once

#include "base/clock.h"
#include "base/result.h"

#include <string>
#include <sys/types.h>
#include <vector>

namespace varde {

struct program_outcome {
    int exit_status = -1;  // exit code; 128 + signal where it was killed
    std::string output;    // stdout and stderr together, at most output_bytes_max
};

struct program {
    std::vector<std::string> arguments;    // [0] is an absolute path
    std::vector<std::string> environment;  // "NAME=value"; nothing is inherited
    int timeout_ms = 10'000;
    size_t output_bytes_max = 1 << 20;  // what goes beyond is read and dropped
};

// Returns a second after the time-out at the latest.  timeout: the program was killed.  A program that ran and failed
// is no failure here: look at exit_status.
result<program_outcome> run_program(const program& what);

// The end of a child, as waitpid() has its status.  timeout: it has not ended.
result<int> wait_end(pid_t child, const deadline& until);

// As execve() and posix_spawn() want arguments and environment: with a null at the end, valid as long as the texts are.
std::vector<char*> pointers(const std::vector<std::string>& texts);

}  // namespace varde
