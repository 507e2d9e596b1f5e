// One slot's file: a page in, a page out.  Blocking I/O, no state; any thread.
#pragma once

#include "store/roster.h"

namespace varde::store {

struct alignas(slot_bytes) slot_page {  // as O_DIRECT wants it
    std::array<std::byte, slot_bytes> bytes{};
};

std::string slot_name(uint32_t node_index);  // "00003"

// One write of the whole page.  `direct` is cleared where the file system takes O_DIRECT at open and refuses it now.
// Returns 0 or the errno.
int write_page(int fd, const slot_page& page, bool* direct) noexcept;

// not_found: the file is shorter than a page, its writer has just made it.
result<void> read_page(int fd, slot_page& page, bool* direct, const std::string& name);

// Opens, reads and decodes; a torn read is repeated a few times.  `ret_fd`, where given, gets the file if it may stay
// open: with O_DIRECT.
result<slot> read_slot(int directory, uint32_t node_index, unique_fd* ret_fd = nullptr);

// decode_slot() and the check that the slot is that node's.
result<slot> decode_page(const slot_page& page, uint32_t node_index);

// A writer needs microseconds to write a page, a network file system some milliseconds: pauses of 1, 2, 4 and 8 ms, 15
// ms in all.
constexpr unsigned torn_reads_max = 5;
void pause_before_read(unsigned attempt) noexcept;  // none before the first (0)

}  // namespace varde::store
