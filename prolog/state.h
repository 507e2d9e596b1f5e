// state.json: what the prolog has set up, for the epilog, the library and people.
//
// Root's file in root's directory: the epilog acts on it.  Written before the agent runs (so that an interrupted
// prolog leaves what the epilog needs) and once more when the outcome is known.
#pragma once

#include "base/result.h"
#include "prolog/job_directory.h"
#include "prolog/process_table.h"

#include <cstdint>
#include <string>
#include <vector>

namespace varde::node {

// The network between this node and the file system of the checkpoints (storage_network.h).
struct storage_server {
    std::string address;
    std::string interface;  // empty: no route leads there

    bool operator==(const storage_server&) const = default;
};
struct storage_facts {
    std::string mount;  // its mount point; empty: not looked at
    std::string type;
    std::vector<storage_server> servers;
    uint32_t mtu_bytes = 0;  // of the storage interface, where the site names one
    uint32_t speed_mbps = 0;
    std::string problem;  // one line; empty: none

    bool operator==(const storage_facts&) const = default;
};

struct state {
    uint32_t job_id = 0;
    uid_t uid = 0;
    uint32_t restart_count = 0;
    std::string boot;    // of the system: the processes below are of that start of it
    bool ready = false;  // false: degraded, see `reason`
    std::string reason;
    pid_t agent_pid = 0;             // 0: no agent runs
    uint64_t agent_start_ticks = 0;  // of /proc/PID/stat: tells the agent from a later process of the same number
    uint64_t arena_bytes = 0;
    uint64_t huge_page_bytes = 0;   // of the arena; 0: ordinary pages
    bool planned = false;           // the file "plan" is there
    bool cgroup = false;            // the agent has a control group of its own; false: it lives in slurmd's
    std::string cgroup_reason;      // why, then
    std::string directory;          // of the checkpoints, as far as the prolog can know; empty: it cannot
    std::string directory_problem;  // one line; empty: none was seen
    process_name probe;             // the child that looked at it, where the kernel holds it in hanging storage
    storage_facts storage;

    bool operator==(const state&) const = default;
};

std::string encode_state(const state& from);
// damaged: not what encode_state() makes.
result<state> decode_state(const std::string& text);

result<void> write_state(const job_directory& where, const state& what);
result<state> read_state(const job_directory& where);

// What is known of the job here: its state.json or, where that is missing, damaged or another job's (which the journal
// is told), the number alone, which is enough to find the agent in its control group.  Processes of an earlier start of
// the system are not known: somebody else may have their numbers, and even their start times.
state known_state(const job_directory& where, uint32_t job_id);

}  // namespace varde::node
