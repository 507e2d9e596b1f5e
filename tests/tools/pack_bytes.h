// Whole packs in memory, for tests and tools: every byte of a shard follows from rank, name and position.
#pragma once

#include "pack/layout.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace varde::test {

// The byte at `offset` of a tensor; another function than any checksum in the tree, simple enough for a Python test
// to repeat.
inline unsigned char tensor_byte(uint32_t rank, std::string_view name, uint64_t offset) {
    uint32_t mix = 2166136261U ^ rank;
    for (const char letter : name) mix = (mix ^ static_cast<unsigned char>(letter)) * 16777619U;
    return static_cast<unsigned char>((mix >> 8) + offset * 31 + (offset >> 8));
}

inline void fill_tensors(const pack::range& from, std::span<std::byte> to) {
    for (const pack::shard& each : from.shards) {
        for (uint64_t offset = 0; offset < each.size_bytes; offset++)
            to[each.offset_bytes + offset] = std::byte{tensor_byte(from.rank, each.name, offset)};
    }
}

// Header, ranges and seal as a writer leaves them in the file.
inline std::vector<std::byte> pack_bytes(const pack::image& made) {
    std::vector<std::byte> file(made.file_bytes);
    std::memcpy(file.data(), made.header.data(), made.header.size());
    std::vector<uint64_t> sums;
    for (const pack::placed_range& where : made.ranges) {
        const auto bytes = std::span(file).subspan(where.file_offset, where.what.size_bytes);
        fill_tensors(where.what, bytes);
        for (uint64_t start = 0; start < bytes.size(); start += made.chunk_bytes)
            sums.push_back(
                pack::checksum(bytes.subspan(start, std::min<uint64_t>(made.chunk_bytes, bytes.size() - start))));
    }
    const auto seal = pack::make_seal(made, sums);
    std::memcpy(file.data() + made.seal_offset, seal.data(), seal.size());
    return file;
}

// Shards of every dtype, scalars, empty tensors, split tensors and names of all kinds: what an example pack holds.
// `place` below 50 makes the shapes and the places of the pieces different.
inline std::vector<pack::shard> example_shards(uint32_t place) {
    std::vector<pack::shard> shards;
    for (unsigned number = 1; number <= pack::dtype_count; number++) {
        pack::shard each;
        each.type = static_cast<pack::dtype>(number);
        each.name = std::string("layer.") + pack::dtype_name(each.type);
        each.shape = {2, 4, 1 + number + place};
        shards.push_back(each);
        each.name += ".empty";
        each.shape = {3, 0, 2};
        shards.push_back(each);
        if (pack::dtype_bits(each.type) < 8) continue;
        each.name = std::string("scalar.") + pack::dtype_name(each.type);
        each.shape = {};
        shards.push_back(each);
    }
    const char* names[] = {"varde.seal",
                           "__metadata__",
                           "\"quote\\back/slash\"",
                           "na\xc3\xafve \xe2\x9b\xb0 \xf0\x9f\x97\xbf",
                           "line\nbreak\ttab\x01",
                           " ",
                           "rank00000/x"};
    for (const char* name : names)
        shards.push_back({.name = name, .type = pack::dtype::u8, .shape = {7}, .global_shape = {}, .offset = {}});
    shards.push_back({.name = "split \"rows\"",
                      .type = pack::dtype::f32,
                      .shape = {2, 3},
                      .global_shape = {100, 3},
                      .offset = {2 * uint64_t{place}, 0}});
    shards.push_back({.name = "split.columns",
                      .type = pack::dtype::bf16,
                      .shape = {4, 5},
                      .global_shape = {4, 500},
                      .offset = {0, 5 * uint64_t{place}}});
    return shards;
}

}  // namespace varde::test
