// Where each byte of a pack lies: shards -> a rank's range -> the whole file.  FORMAT.md is the normative page.
//
// Pure computation, no I/O, any thread.  The library and the agent both call arrange(), so that the slab is laid
// out exactly like the rank's range of the pack.
#pragma once

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace varde::pack {

// The numbers are part of the C API (varde.h).
enum class dtype : uint8_t {
    boolean = 1,
    u8,
    i8,
    f8_e5m2,
    f8_e4m3,
    i16,
    u16,
    f16,
    bf16,
    i32,
    u32,
    f32,
    f64,
    i64,
    u64,
    c64,
    f4,
    f6_e2m3,
    f6_e3m2,
    f8_e8m0,
    f8_e4m3fnuz,
    f8_e5m2fnuz
};
constexpr unsigned dtype_count = 22;
unsigned dtype_bits(dtype type) noexcept;     // 4, 6, 8, 16, 32 or 64; 0 for a number that is no dtype
const char* dtype_name(dtype type) noexcept;  // "BF16", as in the file
result<dtype> dtype_named(std::string_view name);

// A piece of a tensor that one rank owns.
struct shard {
    std::string name;  // of the whole tensor; UTF-8, unique within the rank
    dtype type = dtype::u8;
    std::vector<uint64_t> shape;         // of the piece
    std::vector<uint64_t> global_shape;  // empty: the piece is the whole tensor
    std::vector<uint64_t> offset;        // as many numbers as global_shape
    uint64_t size_bytes = 0;             // set by arrange()
    uint64_t offset_bytes = 0;           // within the rank's range, set by arrange()

    bool operator==(const shard&) const = default;
};

// What one rank stores: its shards in file order, without gaps, then zeros up to a multiple of 4096.
struct range {
    uint32_t rank = 0;
    std::vector<shard> shards;
    uint64_t data_bytes = 0;  // of all shards
    uint64_t size_bytes = 0;  // data_bytes aligned up to 4096; 0 where there is no data

    bool operator==(const range&) const = default;
};

// Checks the shards (names, shapes, sums: everything a reader would refuse) and gives each its place: by falling
// element size, then in the order given, so that every tensor is aligned to its element without padding.
result<range> arrange(uint32_t rank, std::vector<shard> shards);

// Chunks of a range; the last may be shorter.  Each range starts a new chunk.
constexpr uint64_t chunk_count(uint64_t size_bytes, uint64_t chunk_bytes) noexcept {
    return size_bytes / chunk_bytes + (size_bytes % chunk_bytes != 0);
}

// Which generation, which run, which node: stored in every pack, so that a misplaced file is refused.
struct identity {
    std::string run;
    uint64_t step = 0;
    uint64_t incarnation = 0;
    uint32_t node_index = 0;
    uint32_t node_count = 0;
    uint32_t world = 0;
    std::string library;  // version that wrote it

    bool operator==(const identity&) const = default;
};

struct placed_range {
    range what;
    uint64_t file_offset = 0;  // multiple of 4096
    uint64_t first_chunk = 0;  // index into the checksum table

    bool operator==(const placed_range&) const = default;
};

// The whole pack but for the shards' bytes and their checksums.
struct image {
    identity who;
    uint64_t chunk_bytes = 0;
    std::string header;                // 8-byte length + JSON + spaces; a multiple of 4096 bytes
    uint64_t header_checksum = 0;      // XXH3-64 of `header`
    std::vector<placed_range> ranges;  // in the order given, ranks ascending
    uint64_t chunk_count = 0;
    uint64_t seal_offset = 0;  // multiple of 4096
    uint64_t seal_bytes = 0;   // multiple of 4096
    uint64_t file_bytes = 0;   // seal_offset + seal_bytes

    bool operator==(const image&) const = default;
};

// Lays the pack out and writes its header.  Ranks must be ascending and unique.
result<image> compose(identity who, std::vector<range> ranges, uint64_t chunk_bytes);

// The seal: header checksum, chunk checksums (XXH3-64, one per chunk, in file order), and a checksum of itself;
// `seal_bytes` long. checksum() of the whole seal stands for the whole pack: it is what a manifest records.
std::vector<std::byte> make_seal(const image& pack, std::span<const uint64_t> chunk_sums);

uint64_t checksum(std::span<const std::byte> bytes) noexcept;  // XXH3-64

}  // namespace varde::pack
