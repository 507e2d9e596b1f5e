// The checksum of chunks, header and seal is XXH3-64, whatever it is compiled with.
#include "pack/layout.h"

#include <criterion/criterion.h>
#include <vector>
#include <xxhash.h>

using varde::pack::checksum;

namespace {

std::vector<std::byte> bytes_of_size(size_t size_bytes) {
    std::vector<std::byte> bytes(size_bytes);
    for (size_t i = 0; i < size_bytes; i++) bytes[i] = static_cast<std::byte>(i * 0x9E3779B97F4A7C15 >> 56);
    return bytes;
}

}  // namespace

Test(pack_checksum, is_that_of_the_library_for_every_size) {
    const auto bytes = bytes_of_size((4 << 20) + 4096);
    std::vector<size_t> sizes{4096, 8192, 1 << 20, 4 << 20, bytes.size()};
    for (size_t size = 0; size <= 2100; size++) sizes.push_back(size);  // each of the algorithm's ways, and its block
    for (const size_t size : sizes) {
        for (const size_t skip : {0, 1, 7}) {
            const std::span part = std::span(bytes).subspan(skip, std::min(size, bytes.size() - skip));
            cr_assert_eq(checksum(part), XXH3_64bits(part.data(), part.size()), "%zu bytes from %zu", size, skip);
        }
    }
}

// From the algorithm's own description: the library here could be wrong, too.
Test(pack_checksum, of_nothing_is_the_published_one) { cr_assert_eq(checksum({}), 0x2D06800538D394C2); }
