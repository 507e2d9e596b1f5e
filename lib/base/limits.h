// Limits of Varde, each with its unit and its reason.  A number that bounds something lives here, once.
#pragma once

#include <cstdint>

namespace varde::limits {

constexpr uint64_t page_bytes = 4096;  // alignment of everything that O_DIRECT may touch

constexpr uint32_t nodes_max = 65536;      // five digits in file names; 2,048 is the design point
constexpr uint32_t world_max = 1U << 20;   // ranks of a run
constexpr uint32_t local_ranks_max = 256;  // ranks of one node: one control page each in the arena
constexpr uint32_t numa_nodes_max = 1024;  // as Linux (MAX_NUMNODES)
constexpr uint64_t rounding_share = 50;    // an arena is larger than asked by 1 / 50 at most, for whole huge pages
constexpr uint32_t tensors_per_node_max = 100'000;
constexpr uint32_t tensor_dims_max = 64;  // as PyTorch
constexpr uint32_t tensor_name_bytes_max = 1024;
constexpr uint64_t header_bytes_max = 100'000'000;  // the safetensors format's own limit
constexpr uint64_t range_bytes_max = 1ULL << 44;    // 16 TiB per rank: sums of 256 of them stay far below 2^63

constexpr uint32_t run_name_bytes_max = 128;
constexpr uint32_t count_option_max = 1'000'000;  // --ckpt-keep, --ckpt-max-restarts
constexpr uint32_t path_bytes_max = 4096;         // PATH_MAX
constexpr uint32_t launch_bytes_max = 127;        // identity of a start: its field in the slot; longer ones are refused

constexpr uint32_t mounts_max = 64;  // of agent.mounts: a pack that finds no room looks at each

constexpr uint64_t chunk_bytes_min = page_bytes;
constexpr uint64_t chunk_bytes_default = 4ULL << 20;
constexpr uint64_t chunk_bytes_max = 64ULL << 20;
constexpr uint64_t chunks_per_pack_max = 1ULL << 24;  // 64 TiB at the default; a seal is at most 128 MiB to read

static_assert(chunk_bytes_default % page_bytes == 0);
static_assert(range_bytes_max <= (1ULL << 63) / local_ranks_max);

// A message on the agent's socket: a layout of 100,000 tensors with long names still fits.
constexpr uint64_t message_bytes_max = 256ULL << 20;

}  // namespace varde::limits
