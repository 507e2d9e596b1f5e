// The tensors of a pack's file in their order, as the writer lists them and the reader demands them.  Internal to
// lib/pack.
//
// Writer and reader share this one walk, so a header is accepted only where it says what the writer would have said.
#pragma once

#include "pack/layout.h"

namespace varde::pack {

constexpr uint32_t format_version = 1;

// Keys of "__metadata__"; all are there in every pack, each with a string.
namespace keys {
constexpr std::string_view metadata = "__metadata__";
constexpr std::string_view format = "varde.format";
constexpr std::string_view run = "varde.run";
constexpr std::string_view step = "varde.step";
constexpr std::string_view incarnation = "varde.incarnation";
constexpr std::string_view node_index = "varde.node_index";
constexpr std::string_view node_count = "varde.node_count";
constexpr std::string_view world = "varde.world";
constexpr std::string_view ranks = "varde.ranks";
constexpr std::string_view library = "varde.library";
constexpr std::string_view chunk_bytes = "varde.chunk_bytes";
constexpr std::string_view split = "varde.split";
}  // namespace keys

constexpr uint32_t library_text_bytes_max = 64;

// One line of the header.
struct entry {
    std::string name;
    const char* type = "";
    std::span<const uint64_t> shape;
    uint64_t begin = 0;  // bytes from the end of the header
    uint64_t end = 0;
};

// "rank00017/" in front of a tensor's name.
std::string rank_prefix(uint32_t rank);

// What every pack's identity, ranks and chunk size obey, whoever made them.
result<void> check_identity(const identity& who, std::span<const range> ranges, uint64_t chunk_bytes);

// Gives each range and the seal its place in a file whose header has `header_bytes`; fills all of `target` but the
// header.
void place(image& target, std::vector<range> ranges, uint64_t header_bytes);

// Walks the tensors: of each range its shards, then its padding; last the seal.
class entry_cursor {
public:
    // `pack` has been placed behind `header_bytes` and outlives the cursor.
    entry_cursor(const image& pack, uint64_t header_bytes) noexcept : pack_(pack), header_bytes_(header_bytes) {}
    // False after the last; `ret_entry` refers to `pack` and to this cursor until the next call.
    bool next(entry& ret_entry);

private:
    void fill_bytes(entry& ret_entry, std::string name, uint64_t file_offset, uint64_t size_bytes);

    const image& pack_;
    uint64_t header_bytes_;
    size_t range_ = 0;
    size_t shard_ = 0;
    bool sealed_ = false;
    std::string prefix_;       // of the current range
    uint64_t size_bytes_ = 0;  // shape of a padding or of the seal
};

}  // namespace varde::pack
