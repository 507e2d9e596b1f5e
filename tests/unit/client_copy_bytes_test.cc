// copy_bytes: every byte of the source, and not one beyond, whatever the size and however the two lie.
#include "client/copy_bytes.h"

#include <criterion/criterion.h>
#include <cstdint>
#include <vector>

using varde::client::copy_bytes;

namespace {

constexpr size_t margin_bytes = 256;
constexpr std::byte untouched{0xA5};

std::byte byte_at(size_t index) { return static_cast<std::byte>(index * 0x9E3779B97F4A7C15 >> 56); }

void check_copy(size_t size_bytes, size_t target_skip, size_t source_skip) {
    std::vector<std::byte> source(size_bytes + source_skip + margin_bytes);
    for (size_t i = 0; i < source.size(); i++) source[i] = byte_at(i);
    std::vector<std::byte> target(size_bytes + target_skip + margin_bytes, untouched);
    copy_bytes(target.data() + target_skip, source.data() + source_skip, size_bytes);
    for (size_t i = 0; i < target.size(); i++) {
        const bool copied = i >= target_skip && i < target_skip + size_bytes;
        const std::byte wanted = copied ? byte_at(i - target_skip + source_skip) : untouched;
        cr_assert(target[i] == wanted, "%zu bytes from +%zu to +%zu: byte %zu", size_bytes, source_skip, target_skip,
                  i);
    }
}

}  // namespace

Test(client_copy_bytes, copies_every_size_around_lines_pages_and_the_threshold) {
    for (const size_t about : {0, 64, 4096, 16384, 65536, 65536 + 16384, 1 << 20}) {
        for (int near = -65; near <= 65; near += 13) {
            if (static_cast<ptrdiff_t>(about) + near >= 0) check_copy(about + static_cast<size_t>(near), 0, 0);
        }
    }
}

Test(client_copy_bytes, copies_whatever_the_alignment) {
    for (const size_t target_skip : {0, 1, 8, 15, 16, 17, 63, 64, 65}) {
        for (const size_t source_skip : {0, 1, 4, 16, 63}) {
            check_copy(100, target_skip, source_skip);
            check_copy((128 << 10) + 77, target_skip, source_skip);
        }
    }
}

Test(client_copy_bytes, nothing_may_come_from_nowhere) { copy_bytes(nullptr, nullptr, 0); }
