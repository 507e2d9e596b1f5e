// Reading of packs.
#include "cli/pack_input.h"

#include "base/limits.h"
#include "pack/text.h"
#include "store/files.h"

#include <cerrno>

namespace varde::cli {

result<pack_input> pack_input::open(const std::string& path, const std::string& shown_path) {
    pack_input made;
    made.path_ = shown_path;
    bool direct = false;
    const std::string shown = pack::in_quotes(shown_path, limits::path_bytes_max);
    // Non-blocking, so that a pipe in a pack's place cannot hold us; it means nothing to a file.
    made.fd_.reset(
        store::files::open_direct_at(AT_FDCWD, path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, &direct));
    struct stat info {};
    if (!made.fd_ || ::fstat(made.fd_.get(), &info) != 0) return os_error(errno, "couldn't open the pack " + shown);
    if (!S_ISREG(info.st_mode)) return fail(code::damaged, "pack " + shown + ": it is not a regular file");
    auto head = store::read_pack_head(made.fd_.get(), static_cast<uint64_t>(info.st_size), shown_path);
    if (!head) return std::move(head).error();
    made.head_ = std::move(*head);
    return made;
}

result<void> pack_input::check_chunk(const pack::placed_range& where, uint64_t chunk_in_range,
                                     std::byte* buffer) const {
    const pack::chunk_place place = pack::place_of_chunk(image(), where, chunk_in_range);
    if (auto done = store::files::read_exactly(fd_.get(), buffer, place.size_bytes, place.file_offset, path_); !done)
        return done;
    return pack::verify_chunk({buffer, place.size_bytes}, head_.sums[place.index],
                              "rank " + std::to_string(where.what.rank), chunk_in_range);
}

}  // namespace varde::cli
