// The routes that this node has for its jobs: /run/varde/routes, root's, one line per route with the jobs that need it.
//
// A route is noted before it is added and stays noted until it is removed, so whatever is interrupted is done again by
// the next who comes; a reboot takes note and route.  A job counts as long as it has its directory /run/varde/JOBID.
// Two at a time wait for each other: 2 s at most, at a lock that only root can hold.
#pragma once

#include "prolog/netlink.h"

#include <cstdint>
#include <string>
#include <vector>

namespace varde::node {

struct noted_route {
    host_route route;
    std::vector<uint32_t> jobs;

    bool operator==(const noted_route&) const = default;
};

std::string encode_routes(const std::vector<noted_route>& routes);
// damaged: not what encode_routes() makes.
result<std::vector<noted_route>> decode_routes(std::string_view text);

// How routes get into the kernel: tests have a kernel that fails.
struct route_calls {
    result<void> (*add)(const host_route& route) = add_route;
    result<void> (*remove)(const host_route& route) = remove_route;
};

struct wanted_route {
    host_route route;
    bool missing = false;  // it is to be added; else it is only kept, where we have added it for another job
};

// The job needs these.
result<void> hold_routes(const std::string& run_directory, uint32_t job_id, const std::vector<wanted_route>& wanted,
                         const route_calls& calls = {});

// The job needs none any more; those that no job needs are removed.
result<void> release_routes(const std::string& run_directory, uint32_t job_id, const route_calls& calls = {});

}  // namespace varde::node
