// The evidence of a hang on this node: what each rank's threads are at, and their stacks where the host has a program
// that shows them.
//
// Waits, within a bound: keeper thread only.  A tracer stops a process for a moment; one that hangs is killed, after
// which the kernel lets the process go on, and where a stop that it had asked for was left behind, so do we.  A process
// that is stopped or traced already is not touched.
#pragma once

#include "agent/hang.h"
#include "base/clock.h"

#include <string>
#include <vector>

namespace varde::agent {

// Programs that print the stacks of a process, of which the first that is there is taken: their absolute paths and
// arguments, PID in the place of the process.
struct tracer {
    std::vector<std::string> arguments;
};
std::vector<tracer> host_tracers();

// A look at each rank twice, `look_ms` apart: fills in process and used_ns.
void look_twice(std::vector<rank_look>& ranks, uint64_t look_ms);

// A page for people on one rank.
std::string describe(const rank_look& rank, const std::vector<tracer>& tracers, const deadline& until);

}  // namespace varde::agent
