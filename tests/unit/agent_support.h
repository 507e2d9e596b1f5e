// What the tests of drain and load share: a node's memory, ranges with recognisable bytes, ranks that stage them.
#pragma once

#include "agent/drain.h"
#include "agent/memory.h"
#include "arena/control.h"
#include "io/engine.h"
#include "pack/layout.h"
#include "pack/reader.h"
#include "store_support.h"

#include <cstring>
#include <deque>
#include <random>
#include <thread>

namespace agent_test {

using namespace varde;
using namespace varde::agent;
using store_test::exists;
using store_test::id_of;
using store_test::need;
using store_test::read_file;
using store_test::refused;
using store_test::temporary_directory;

inline std::byte byte_at(uint64_t seed, uint64_t offset) {
    uint64_t mixed = (seed + 1) * 0x9E3779B97F4A7C15 ^ offset * 0xC2B2AE3D27D4EB4F;
    mixed ^= mixed >> 29;
    return static_cast<std::byte>(mixed * 0xBF58476D1CE4E5B9 >> 56);
}

// A range of some shards, `data_bytes` in all; what arrange() adds behind them is zero.
inline pack::range make_range(uint32_t rank, uint64_t data_bytes) {
    std::vector<pack::shard> shards;
    const uint64_t half = data_bytes / 2;
    if (half > 0) shards.push_back({"first", pack::dtype::u8, {half}, {}, {}, 0, 0});
    shards.push_back({"second", pack::dtype::u8, {data_bytes - half}, {}, {}, 0, 0});
    return need(pack::arrange(rank, std::move(shards)));
}

inline std::vector<std::byte> bytes_of(const pack::range& range, uint64_t seed) {
    std::vector<std::byte> bytes(range.size_bytes);
    for (uint64_t i = 0; i < range.data_bytes; i++) bytes[i] = byte_at(seed, i);
    return bytes;
}

inline pack::identity identity_of(uint64_t step, uint64_t incarnation, uint32_t node_index, uint32_t node_count,
                                  uint32_t world) {
    return {"run", step, incarnation, node_index, node_count, world, "0.1.0"};
}

// The arena and control pages of a node.
struct node_pages {
    explicit node_pages(uint64_t arena_bytes) : memory(need(make_memory({.size_bytes = arena_bytes})).memory) {}
    arena::rank_control* control(uint32_t rank) { return arena::rank_of(memory.control.data(), rank); }
    arena::node_control* node() { return arena::node_of(memory.control.data()); }
    std::byte* slab(uint32_t rank, uint64_t slab_bytes) { return memory.arena.data() + rank * slab_bytes; }
    node_memory memory;
};

inline io::engine open_engine(node_pages& pages, bool use_ring) {
    io::engine_options options;
    options.depth = 8;
    options.buffers = {{pages.memory.arena.data(), pages.memory.arena.size_bytes()}};
    options.use_ring = use_ring;
    return need(io::engine::open(options));
}

// A pack read back, checked with the reader, and compared with the bytes that were staged.
inline void check_pack(const std::string& path, const std::vector<std::vector<std::byte>>& expected) {
    const std::string text = read_file(path);
    const auto file = std::as_bytes(std::span(text));
    const uint64_t header = need(pack::header_bytes(file.first(4096), file.size()));
    const auto image = need(pack::parse_header(file.first(header), file.size()));
    const auto sums = need(pack::parse_seal(image, file.subspan(image.seal_offset, image.seal_bytes)));
    cr_assert_eq(image.ranges.size(), expected.size());
    for (size_t i = 0; i < expected.size(); i++) {
        const auto& placed = image.ranges[i];
        cr_assert_eq(placed.what.size_bytes, expected[i].size());
        for (uint64_t chunk = 0; chunk < pack::chunk_count(placed.what.size_bytes, image.chunk_bytes); chunk++) {
            const auto where = pack::place_of_chunk(image, placed, chunk);
            const auto bytes = file.subspan(where.file_offset, where.size_bytes);
            need(pack::verify_chunk(bytes, sums[where.index], "pack", where.index));
            cr_assert(std::memcmp(bytes.data(), expected[i].data() + chunk * image.chunk_bytes, where.size_bytes) == 0,
                      "range %zu, chunk %lu", i, chunk);
        }
    }
}

}  // namespace agent_test
