// The bytes of `varde.seal`.  Internal to lib/pack; FORMAT.md shows the table.
#pragma once

#include "base/checked.h"
#include "base/limits.h"

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace varde::pack {

// Little-endian, at the seal's start.  The table of checksums follows, then zeros, then, as the last 8 bytes of the
// seal, the checksum of all bytes before it.
struct seal_head {
    uint64_t magic;            // another tensor of that name, or a file of zeros, is no seal
    uint64_t header_checksum;  // ties the table to this header: a seal of another pack is refused
    uint64_t chunk_count;
    uint64_t reserved;  // zero
};
static_assert(sizeof(seal_head) == 32 && std::has_unique_object_representations_v<seal_head>);
static_assert(offsetof(seal_head, header_checksum) == 8 && offsetof(seal_head, chunk_count) == 16);

constexpr uint64_t seal_magic = 0x314c414553445256;  // "VRDSEAL1"

constexpr uint64_t seal_size_bytes(uint64_t chunk_count) noexcept {
    return align_up(sizeof(seal_head) + (chunk_count + 1) * sizeof(uint64_t), limits::page_bytes);
}

}  // namespace varde::pack
