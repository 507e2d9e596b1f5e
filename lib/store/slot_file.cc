// One slot's file: see slot_file.h.
#include "store/slot_file.h"

#include "base/clock.h"
#include "store/files.h"

#include <cerrno>
#include <cstdio>
#include <unistd.h>

namespace varde::store {

std::string slot_name(uint32_t node_index) {
    char text[16] = "";
    ::snprintf(text, sizeof text, "%05u", node_index);
    return text;
}

int write_page(int fd, const slot_page& page, bool* direct) noexcept {
    while (true) {
        const ssize_t written = ::pwrite(fd, page.bytes.data(), page.bytes.size(), 0);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0 && errno == EINVAL && *direct && files::clear_direct(fd)) {
            *direct = false;
            continue;
        }
        if (written < 0) return errno;
        if (static_cast<size_t>(written) != page.bytes.size())
            return EIO;  // readers see a torn slot until the next write
        // Without O_DIRECT a network file system may keep the page to itself.
        return *direct || ::fdatasync(fd) == 0 ? 0 : errno;
    }
}

result<void> read_page(int fd, slot_page& page, bool* direct, const std::string& name) {
    while (true) {
        const ssize_t got = ::pread(fd, page.bytes.data(), page.bytes.size(), 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EINVAL && *direct && files::clear_direct(fd)) {
            *direct = false;
            continue;
        }
        if (got < 0) return os_error(errno, "couldn't read the slot 'roster/" + name + "'");
        if (static_cast<size_t>(got) < page.bytes.size())
            return fail(code::not_found,
                        "the slot 'roster/" + name + "' has only " + std::to_string(got) + " bytes yet");
        return {};
    }
}

result<slot> decode_page(const slot_page& page, uint32_t node_index) {
    result<slot> read = decode_slot(page.bytes);
    if (read && read->node_index == node_index) return read;
    const std::string reason =
        read ? "it is the slot of node " + std::to_string(read->node_index) : read.error().context;
    return fail(code::damaged, "couldn't use the slot 'roster/" + slot_name(node_index) + "': " + reason);
}

void pause_before_read(unsigned attempt) noexcept {
    if (attempt == 0) return;
    const timespec pause{0, static_cast<long>(ns_per_ms << (attempt - 1))};
    discard(::nanosleep(&pause, nullptr), "a signal only makes the pause shorter");
}

result<slot> read_slot(int directory, uint32_t node_index, unique_fd* ret_fd) {
    const std::string name = slot_name(node_index);
    slot_page page;
    for (unsigned attempt = 0;; ++attempt) {
        pause_before_read(attempt);
        bool direct = false;
        // Opened anew for each attempt: that is what makes a network file system without O_DIRECT ask its server.
        unique_fd fd(files::open_direct_at(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, &direct));
        if (!fd) return os_error(errno, "couldn't open the slot 'roster/" + name + "'");
        if (const result<void> got = read_page(fd.get(), page, &direct, name); !got) return got.error();
        result<slot> read = decode_page(page, node_index);
        if (read && direct && ret_fd != nullptr) *ret_fd = std::move(fd);
        if (read || attempt + 1 == torn_reads_max) return read;
    }
}

}  // namespace varde::store
