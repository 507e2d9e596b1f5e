// The seal, written and read, and the checks of chunks.
#include "base/checked.h"
#include "base/limits.h"
#include "base/units.h"
#include "pack/layout.h"
#include "pack/reader.h"
#include "pack/seal_format.h"
#include "pack/text.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace varde::pack {

namespace {

failure damaged(const std::string& reason) { return fail(code::damaged, "couldn't accept the pack's seal: " + reason); }

uint64_t load(std::span<const std::byte> bytes, size_t offset) noexcept {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
}

}  // namespace

std::vector<std::byte> make_seal(const image& pack, std::span<const uint64_t> chunk_sums) {
    assert(chunk_sums.size() == pack.chunk_count);
    assert(pack.seal_bytes == seal_size_bytes(pack.chunk_count));
    const seal_head head{
        .magic = seal_magic, .header_checksum = pack.header_checksum, .chunk_count = pack.chunk_count, .reserved = 0};
    std::vector<std::byte> seal(pack.seal_bytes);
    std::memcpy(seal.data(), &head, sizeof head);
    if (!chunk_sums.empty()) std::memcpy(seal.data() + sizeof head, chunk_sums.data(), chunk_sums.size_bytes());
    const size_t last = seal.size() - sizeof(uint64_t);
    const uint64_t own = checksum(std::span(seal).first(last));
    std::memcpy(seal.data() + last, &own, sizeof own);
    return seal;
}

result<std::vector<uint64_t>> parse_seal(const image& pack, std::span<const std::byte> seal) {
    if (seal.size() != pack.seal_bytes || seal.size() != seal_size_bytes(pack.chunk_count))
        return damaged("it has " + std::to_string(seal.size()) + " bytes instead of " +
                       std::to_string(pack.seal_bytes));
    const size_t last = seal.size() - sizeof(uint64_t);
    if (load(seal, 0) != seal_magic) return damaged("it does not begin as a seal does; the file is torn or foreign");
    if (load(seal, last) != checksum(seal.first(last)))
        return damaged("its bytes do not have the checksum that it names");
    seal_head head{};
    std::memcpy(&head, seal.data(), sizeof head);
    if (head.header_checksum != pack.header_checksum)
        return damaged("the header has checksum " + hexadecimal(pack.header_checksum) + " where the seal names " +
                       hexadecimal(head.header_checksum));
    if (head.chunk_count != pack.chunk_count)
        return damaged("it names " + std::to_string(head.chunk_count) + " chunks where the header has " +
                       std::to_string(pack.chunk_count));
    const size_t table_end = sizeof head + pack.chunk_count * sizeof(uint64_t);
    const auto rest = seal.subspan(table_end, last - table_end);
    const bool zeros = std::all_of(rest.begin(), rest.end(), [](std::byte each) { return each == std::byte{0}; });
    if (head.reserved != 0 || !zeros) return damaged("bytes that must be zero are not");
    std::vector<uint64_t> sums(pack.chunk_count);
    if (!sums.empty()) std::memcpy(sums.data(), seal.data() + sizeof head, sums.size() * sizeof(uint64_t));
    return sums;
}

chunk_place place_of_chunk(const image& pack, const placed_range& where, uint64_t chunk_in_range) {
    assert(chunk_in_range < chunk_count(where.what.size_bytes, pack.chunk_bytes));
    const uint64_t start = chunk_in_range * pack.chunk_bytes;
    return {.file_offset = where.file_offset + start,
            .size_bytes = std::min(pack.chunk_bytes, where.what.size_bytes - start),
            .index = where.first_chunk + chunk_in_range};
}

result<void> verify_chunk(std::span<const std::byte> bytes, uint64_t expected_checksum, std::string_view what,
                          uint64_t chunk_index) {
    const uint64_t found = checksum(bytes);
    if (found == expected_checksum) return {};
    return fail(code::damaged, "chunk " + std::to_string(chunk_index) + " of " + std::string(what) +
                                   " is damaged: its " + std::to_string(bytes.size()) + " bytes have checksum " +
                                   hexadecimal(found) + " where the seal names " + hexadecimal(expected_checksum));
}

}  // namespace varde::pack
