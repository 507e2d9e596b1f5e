// The prolog's question to the job's checkpoint directory, asked by a child as the user while the rest is set up, and
// waited for no longer than `prolog.probe_s`.
#pragma once

#include "prolog/directory_look.h"
#include "prolog/state.h"
#include "prolog/user_errand.h"

namespace varde::node {

class directory_probe {
public:
    // Asks, if the place is known.  `made` gets the path and the child's name.
    static directory_probe begin(const request& job, state& made);

    // What has been seen by now, after `timeout_ms` at most more.
    const std::optional<directory_view>& wait(int timeout_ms);

    // Ends it: `made` gets the problem, if there is one.  One that hangs is killed, or stays named where the kernel
    // holds it.  `timeout_ms` counts from begin().
    void finish(const request& job, int timeout_ms, state& made);

private:
    std::optional<user_errand> errand_;
    std::optional<directory_view> view_;
    std::string failure_;
    uint64_t began_ns_ = 0;
};

// "checkpoint directory '/a' has 1 GiB free of 2 GiB, and ...": empty if a checkpoint of the job fits.  It may be as
// large as all arenas together: no size is known better before training has begun.  Pure.
std::string describe_space(const directory_view& view, uint64_t arena_bytes, uint32_t node_count);

// SIGKILL to the probe that an earlier prolog had to leave.  false: the kernel holds it still.
bool end_left_probe(const state& before);
std::string held_probe_line(const state& before);

}  // namespace varde::node
