// The plan of one job on one node: where the arena lies, which CPUs the agent's writers use, which device carries the
// storage traffic, and why.  make_plan() is pure: the same machine and request give the same plan.
//
// The prolog makes it and writes format_plan() as root; the agent reads it with parse_plan() and follows it:
//
//     const auto found = topo::parse_plan(text);
//     uint64_t offset = 0;
//     for (const auto& share : found->shares) {  // the arena's bytes, in this order
//         if (share.bytes != 0) bind(base + offset, share.bytes, share.node);  // mbind(2)
//         offset += share.bytes;
//     }
//     topo::run_on(found->writers);
//
// and a rank's slab comes from the share of node_of_gpu() of its GPU, else node_of_cpus() of its CPUs.  PLAN.md
// is about the text.  Any thread.
#pragma once

#include "base/limits.h"
#include "base/result.h"
#include "topo/cpu_set.h"
#include "topo/machine.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace varde::topo {

// What is known of the job; the rest is left empty.
struct request {
    uint64_t arena_bytes = 0;
    uint64_t page_bytes = limits::page_bytes;        // no page is split between nodes; huge pages where they are used
    std::optional<cpu_set> cpus{};                   // the job's on this node
    std::optional<std::vector<std::string>> gpus{};  // the job's: numbers as Slurm's, PCI addresses or names
    std::optional<uint32_t> ranks{};                 // on this node
    std::vector<std::string> storage{};              // interfaces or disks that carry the checkpoints
    cpu_set system_cpus{};                           // set aside for the system (Slurm's CoreSpecCount, CpuSpecList)
};

struct node_share {
    uint32_t node = 0;
    uint64_t bytes = 0;  // of the arena; may be 0
    cpu_set cpus;        // whose nearest memory this is
    std::string reason;

    bool operator==(const node_share&) const = default;
};

struct gpu_place {
    std::string pci;
    uint32_t node = 0;  // where its slabs live
    std::string reason;

    bool operator==(const gpu_place&) const = default;
};

struct storage_place {
    std::string name;
    std::optional<uint32_t> node;  // the lowest near it; none: not known
    std::string reason;

    bool operator==(const storage_place&) const = default;
};

struct plan {
    uint64_t arena_bytes = 0;
    std::vector<node_share> shares;  // by node, each that may hold a part; their bytes are the arena's
    std::vector<gpu_place> gpus;     // by PCI address
    std::vector<storage_place> storage;
    cpu_set writers;
    std::string writers_reason;
    std::vector<std::string> notes;  // what was asked for and is not there, what would make a better plan

    bool operator==(const plan&) const = default;
};

// invalid: no memory or no CPU of this machine may be used.  What the request names and the machine does not have is
// noted, because a job must not fail for it.
result<plan> make_plan(const machine& on, const request& wanted);

constexpr size_t plan_bytes_max = 1U << 20;  // 1,024 nodes with all CPU lists that a kernel can have

// One fact a line; parse_plan() takes exactly what format_plan() writes, and may be given anything (damaged).
std::string format_plan(const plan& what);
result<plan> parse_plan(std::string_view text);

// Any spelling of the PCI address.  None: the plan does not have this GPU.
std::optional<uint32_t> node_of_gpu(const plan& in, std::string_view pci);

// Where most of these CPUs are; none where the plan has none of them.
std::optional<uint32_t> node_of_cpus(const plan& in, const cpu_set& cpus);

}  // namespace varde::topo
