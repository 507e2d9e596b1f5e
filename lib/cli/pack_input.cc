// Reading of packs.
#include "cli/pack_input.h"

#include "base/checked.h"
#include "base/limits.h"
#include "pack/text.h"
#include "store/files.h"

#include <cerrno>

namespace varde::cli {

namespace {

failure with_path(failure why, const std::string& path) {
    why.context = "pack " + pack::in_quotes(path, limits::path_bytes_max) + ": " + why.context;
    return why;
}

}  // namespace

result<void> pack_input::read(uint64_t offset, std::span<std::byte> target) const {
    while (!target.empty()) {
        const ssize_t count = ::pread(fd_.get(), target.data(), target.size(), static_cast<off_t>(offset));
        if (count < 0 && errno == EINTR) continue;
        // Some file systems take O_DIRECT at open and refuse it here.
        if (count < 0 && errno == EINVAL && (::fcntl(fd_.get(), F_GETFL) & O_DIRECT) != 0 &&
            store::files::clear_direct(fd_.get()))
            continue;
        if (count < 0) return os_error(errno, "couldn't read at byte " + std::to_string(offset));
        if (count == 0)
            return fail(code::damaged,
                        "the file ends at byte " + std::to_string(offset) + "; it became shorter while it was read");
        target = target.subspan(static_cast<size_t>(count));
        offset += static_cast<uint64_t>(count);
    }
    return {};
}

result<void> pack_input::read_header(uint64_t file_bytes) {
    if (file_bytes < limits::page_bytes)
        return fail(code::damaged,
                    "the file has only " + std::to_string(file_bytes) + " bytes; it is torn or no pack of Varde");
    auto first = make_pages(limits::page_bytes);
    if (!first) return std::move(first).error();
    if (auto done = read(0, {first->get(), limits::page_bytes}); !done) return done;
    const auto size = pack::header_bytes({first->get(), limits::page_bytes}, file_bytes);
    if (!size) return size.error();
    auto header = make_pages(*size);
    if (!header) return std::move(header).error();
    if (auto done = read(0, {header->get(), *size}); !done) return done;
    auto image = pack::parse_header({header->get(), *size}, file_bytes);
    if (!image) return std::move(image).error();
    image_ = std::move(*image);
    return {};
}

result<void> pack_input::read_seal() {
    auto seal = make_pages(image_.seal_bytes);
    if (!seal) return std::move(seal).error();
    const std::span<std::byte> bytes{seal->get(), image_.seal_bytes};
    if (auto done = read(image_.seal_offset, bytes); !done) return done;
    auto sums = pack::parse_seal(image_, bytes);
    if (!sums) return std::move(sums).error();
    sums_ = std::move(*sums);
    seal_checksum_ = pack::checksum(bytes);
    return {};
}

result<pack_input> pack_input::open(const std::string& path) {
    pack_input made;
    made.path_ = path;
    bool direct = false;
    // Non-blocking, so that a pipe in a pack's place cannot hold us; it means nothing to a file.
    made.fd_.reset(store::files::open_direct_at(AT_FDCWD, path.c_str(), O_RDONLY | O_NONBLOCK, 0, &direct));
    struct stat info {};
    if (!made.fd_ || ::fstat(made.fd_.get(), &info) != 0)
        return os_error(errno, "couldn't open the pack " + pack::in_quotes(path, limits::path_bytes_max));
    if (!S_ISREG(info.st_mode)) return with_path(fail(code::damaged, "it is not a regular file"), path);
    if (auto done = made.read_header(static_cast<uint64_t>(info.st_size)); !done)
        return with_path(std::move(done).error(), path);
    if (auto done = made.read_seal(); !done) return with_path(std::move(done).error(), path);
    return made;
}

result<void> pack_input::check_chunk(const pack::placed_range& where, uint64_t chunk_in_range,
                                     std::byte* buffer) const {
    const pack::chunk_place place = pack::place_of_chunk(image_, where, chunk_in_range);
    const std::span<std::byte> bytes{buffer, place.size_bytes};
    if (auto done = read(place.file_offset, bytes); !done) return with_path(std::move(done).error(), path_);
    return pack::verify_chunk(bytes, sums_[place.index], "rank " + std::to_string(where.what.rank), chunk_in_range);
}

}  // namespace varde::cli
