// What stands before and behind a pack's data: its header and its seal, read from an open file and checked.  The one
// reading of them, for the load and for the tool.  Blocking I/O, no state; any thread.
#pragma once

#include "pack/layout.h"

#include <string>

namespace varde::store {

struct pack_head {
    pack::image image;
    std::vector<uint64_t> sums;  // of each chunk
    uint64_t seal_checksum = 0;  // of the whole seal, as in the manifest
};

// damaged, mismatch (too new): as pack/reader.h says; the other errors: it could not be read.  The context has the
// path. O_DIRECT goes off the file where a read is refused, as files::read_exactly().
result<pack_head> read_pack_head(int fd, uint64_t file_bytes, const std::string& path);

}  // namespace varde::store
