// XXH3, compiled here because the library of the distribution waits for memory.
//
// Chunks lie in memory that no cache holds, and the prefetches of the algorithm reach only 320 bytes ahead where it is
// built for SSE2.  One thread over 1 GiB of cold chunks of 4 MiB on a Xeon of 2023, GB/s:
//
//   bytes ahead      320    768   1024   2048   3072   4096   6144   8192
//   SSE2             8.4    9.2    9.5   11.1   11.7   11.0   11.8   10.9
//   AVX2                   10.5   10.8   12.2          12.4          12.4   (10.1 with its own 512)
//   AVX-512                                                                 (11.1 with its own 512)
//
// So wider registers are not worth a choice at run time.  The figure `bench agent_cpu_s_per_gb` fell by a quarter.
#include "pack/layout.h"

// The checksum itself knows nothing of either.
#define XXH_INLINE_ALL
#define XXH_PREFETCH_DIST 3072
#include <xxhash.h>

namespace varde::pack {

uint64_t checksum(std::span<const std::byte> bytes) noexcept { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace varde::pack
