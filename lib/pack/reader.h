// Bytes in, checked view out: reads packs, with every byte hostile until it has been checked.  No I/O; any thread.
//
// Order of use: header_bytes() on the file's first page and its size, parse_header() on the header, parse_seal() on
// the seal; then verify_chunk() on each chunk before anybody uses a byte of it.
#pragma once

#include "pack/layout.h"

namespace varde::pack {

// How many bytes from the start of the file parse_header() needs.  `first_page` is at least the first 8 bytes.
result<uint64_t> header_bytes(std::span<const std::byte> first_page, uint64_t file_bytes);

// Checks the header against the format and against the file's size; the image it returns is what compose() made.
result<image> parse_header(std::span<const std::byte> header, uint64_t file_bytes);

// Checks the seal against itself and the header; returns the checksum of each chunk.
result<std::vector<uint64_t>> parse_seal(const image& pack, std::span<const std::byte> seal);

// One chunk of a placed range: where it lies in the file and its place in the checksum table.
struct chunk_place {
    uint64_t file_offset = 0;
    uint64_t size_bytes = 0;  // multiple of 4096
    uint64_t index = 0;       // into the table of parse_seal()
};
chunk_place place_of_chunk(const image& pack, const placed_range& where, uint64_t chunk_in_range);

// `what` is the expected identity's text in the error ("pack 'PATH'").
result<void> verify_chunk(std::span<const std::byte> bytes, uint64_t expected_checksum, std::string_view what,
                          uint64_t chunk_index);

}  // namespace varde::pack
