// varde.yaml: what the administrator of a cluster sets.  Every key has a default; a missing file means all defaults.
//
// Read by the prolog, the epilog and the controller hook as root (or SlurmUser) and by the agent as the user.  A
// value here is a site's default; the job's --ckpt-* options win over `defaults` and `memory`.  keys.h has what the
// file may say, and how a key is added.
#pragma once

#include "base/exit_codes.h"
#include "base/result.h"
#include "config/storage.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace varde {

constexpr const char* config_path = "/etc/varde/varde.yaml";

struct config {
    // agent: one process per job and node
    std::optional<uint64_t> memory_bytes;         // arena of a job without --ckpt-memory; at most one of the two is set
    std::optional<uint32_t> memory_percent = 10;  // of the node's memory
    std::string writer_cpus;                      // "0-3,64": CPUs set aside for the system; empty: none are known
    uint64_t huge_page_bytes = 0;                 // pages of the arena: 2 MiB or 1 GiB; 0: the kernel's ordinary ones
    uint64_t chunk_bytes =
        4ULL << 20;                   // unit of copying and writing; a power of two of limits::chunk_bytes_min and more
    uint64_t write_bytes_per_s = 0;   // a node writes checkpoints no faster; 0: no limit
    uint32_t pulse_ms = 1000;         // period of the roster: one slot written, one read
    uint32_t silence_s = 30;          // a slot that is silent for so long, while training stands, is a dead node
    std::vector<std::string> mounts;  // over which the nodes spread their packs; empty: all lie with their run

    // failures
    uint32_t node_mtbf_h = 10'000;  // mean time between failures of one node, in hours: for --ckpt-interval=auto

    // defaults: what a job gets where its options are silent
    uint32_t keep = 3;
    uint32_t max_restarts = 100;
    exit_codes final_exits;       // of batch scripts, after which their jobs are not requeued
    uint64_t hang_timeout_s = 0;  // 0: off

    // prolog, epilog, controller
    uint32_t ready_ms = 900;  // the prolog waits so long for the agent; then the node is "degraded"
    uint32_t probe_s = 5;     // the checkpoint directory has so long to answer the prolog
    uint32_t drain_s = 30;    // the epilog waits so long for staged data to become durable
    uint32_t free_s = 180;    // the controller's helper works so long on one requeue

    storage_settings storage;

    // slurm
    std::string bin_dir;  // where scontrol and squeue are; empty: beside the running slurmd

    bool operator==(const config&) const = default;
};

// Bytes of the arena on a node with `node_bytes` of memory.  The job's own wish comes first, then the site's.
uint64_t arena_bytes(const config& site, std::optional<uint64_t> job_bytes, std::optional<uint32_t> job_percent,
                     uint64_t node_bytes) noexcept;

// What a file says, and where.
struct config_file {
    config values;
    std::vector<uint32_t> lines;  // one per key of config_keys(): where it stands; 0: the default holds
    bool exists = true;
};

// `path` is for messages.  Errors: invalid, with "PATH:LINE: KEY: reason" and a right example.
result<config_file> parse_config(std::string_view text, const std::string& path);

// Reads the file under the rules of trusted_file.h.  A file that is missing gives the defaults; one that is wrong is
// an error, because half a configuration is worse than none.
result<config_file> load_config_file(const std::string& path);
result<config> load_config(const std::string& path = config_path);

}  // namespace varde
