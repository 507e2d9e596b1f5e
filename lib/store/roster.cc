// The roster's slots: which files stay open, and what is done when one of them went away.  See roster.h.
#include "store/roster.h"

#include "base/limits.h"
#include "store/files.h"
#include "store/parallel.h"
#include "store/slot_file.h"

#include <algorithm>
#include <cerrno>

namespace varde::store {

namespace {

// A file that was deleted under us (somebody cleaned up): reads and writes still succeed, and nobody sees them.
bool gone(int fd) noexcept {
    struct stat info {};
    return ::fstat(fd, &info) != 0 || info.st_nlink == 0;
}

}  // namespace

result<roster> roster::open(unique_fd directory) {
    struct stat info {};
    if (::fstat(directory.get(), &info) != 0) return os_error(errno, "couldn't use the roster");
    if (!S_ISDIR(info.st_mode)) return os_error(ENOTDIR, "couldn't use the roster");
    roster opened;
    opened.directory_ = std::move(directory);
    return opened;
}

result<void> roster::open_own(uint32_t node_index) {
    if (own_.fd && own_.node_index == node_index && !gone(own_.fd.get())) return {};
    const std::string name = slot_name(node_index);
    own_.node_index = node_index;
    own_.fd.reset(files::open_direct_at(directory_.get(), name.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK,
                                        0600, &own_.direct));
    if (!own_.fd) return os_error(errno, "couldn't open the slot 'roster/" + name + "' for writing");
    return {};
}

result<void> roster::write(const slot& mine) {
    if (mine.node_index >= mine.node_count || mine.node_count > limits::nodes_max) {
        return fail(code::invalid, "couldn't write a slot: node " + std::to_string(mine.node_index) + " of " +
                                       std::to_string(mine.node_count) + " does not exist");
    }
    if (mine.launch.size() > limits::launch_bytes_max) {
        return fail(code::invalid, "couldn't write a slot: the identity of the start has " +
                                       std::to_string(mine.launch.size()) + " bytes, more than " +
                                       std::to_string(limits::launch_bytes_max));
    }
    slot_page page;
    encode_slot(mine, page.bytes);
    int refused = 0;
    for (int attempt = 0; attempt < 2; ++attempt) {
        if (const result<void> opened = open_own(mine.node_index); !opened) return opened;
        refused = write_page(own_.fd.get(), page, &own_.direct);
        if (refused == 0) return {};
        own_.fd.reset();  // a handle that went stale on the server heals with a new open
        if (refused != ESTALE) break;
    }
    return os_error(refused, "couldn't write the slot 'roster/" + slot_name(mine.node_index) + "'");
}

result<slot> roster::read_kept(uint32_t node_index) {
    slot_page page;
    for (unsigned attempt = 0;; ++attempt) {
        pause_before_read(attempt);
        if (const result<void> got = read_page(kept_.fd.get(), page, &kept_.direct, slot_name(node_index)); !got)
            return got.error();
        result<slot> read = decode_page(page, node_index);
        if (read || attempt + 1 == torn_reads_max || !kept_.direct) return read;
    }
}

result<slot> roster::read(uint32_t node_index) {
    if (kept_.fd && kept_.node_index == node_index && !gone(kept_.fd.get())) {
        result<slot> read = read_kept(node_index);
        if (read && kept_.direct) return read;
        // Something is wrong with the file or the handle: a new open decides.
    }
    kept_ = {node_index, unique_fd(), true};
    return read_slot(directory_.get(), node_index, &kept_.fd);
}

std::vector<result<slot>> roster::read_all(uint32_t node_count) {
    const uint32_t count = std::min(node_count, limits::nodes_max);
    // Each is opened and closed again: 2,048 descriptors would be more than many hosts allow a process.
    std::vector<result<slot>> slots(count, fail(code::internal, ""));
    for_each_index(count, [&](uint32_t i) { slots[i] = read_slot(directory_.get(), i); });
    return slots;
}

}  // namespace varde::store
