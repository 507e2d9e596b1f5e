// A pack opened for looking: header and seal read and checked, chunks on demand.  Reads beside the page cache where
// the file system takes it, so that verifying a checkpoint does not push a training's data out of memory.
#pragma once

#include "base/handle.h"
#include "pack/reader.h"
#include "store/pack_head.h"

#include <string>

namespace varde::cli {

class pack_input {
public:
    // damaged, mismatch (too new): as pack/reader.h, with the path.  io and others: could not be read.
    // `shown_path` is the path for people: that of a link which leads to `path`.
    static result<pack_input> open(const std::string& path, const std::string& shown_path);

    const std::string& path() const noexcept { return path_; }
    const pack::image& image() const noexcept { return head_.image; }
    uint64_t seal_checksum() const noexcept { return head_.seal_checksum; }

    // Reads one chunk and checks it.  `buffer` holds at least image().chunk_bytes.  Any number of threads at once.
    result<void> check_chunk(const pack::placed_range& where, uint64_t chunk_in_range, std::byte* buffer) const;

private:
    std::string path_;
    unique_fd fd_;
    store::pack_head head_;
};

}  // namespace varde::cli
