// The `varde` program but for main(): reads the command line and calls one verb.  Prints to the streams it is
// given, so tests run it whole.
#pragma once

#include <cstdio>

namespace varde::cli {

// Exit statuses of the program.
enum class status : int {
    good = 0,
    damaged = 1,  // something that was read is damaged or refused, or a generation that was named is not complete
    failed = 2,   // wrong usage, or something could not be read
};

struct console {
    std::FILE* out;
    std::FILE* err;
};

int run(int argc, const char* const* argv, console to);

}  // namespace varde::cli
