// Reading of header and seal: see pack_head.h.
#include "store/pack_head.h"

#include "base/limits.h"
#include "base/pages.h"
#include "base/units.h"
#include "pack/reader.h"
#include "pack/text.h"
#include "store/files.h"

namespace varde::store {

namespace {

failure with_path(failure why, const std::string& path) {
    why.context = "pack " + pack::in_quotes(path, limits::path_bytes_max) + ": " + why.context;
    return why;
}

struct part {
    pages memory;
    std::span<std::byte> bytes;
};

result<part> read_part(int fd, uint64_t offset, uint64_t size_bytes, const std::string& path) {
    auto memory = make_pages(size_bytes);
    if (!memory) return std::move(memory).error();
    if (auto done = files::read_exactly(fd, memory->get(), size_bytes, offset, path); !done)
        return std::move(done).error();
    const std::span<std::byte> bytes(memory->get(), size_bytes);
    return part{std::move(*memory), bytes};
}

result<pack::image> read_header(int fd, uint64_t file_bytes, const std::string& path) {
    const auto first = read_part(fd, 0, limits::page_bytes, path);
    if (!first) return first.error();
    const auto header_bytes = pack::header_bytes(first->bytes, file_bytes);
    if (!header_bytes) return with_path(header_bytes.error(), path);
    const auto header = read_part(fd, 0, *header_bytes, path);
    if (!header) return header.error();
    auto image = pack::parse_header(header->bytes, file_bytes);
    if (!image) return with_path(std::move(image).error(), path);
    return image;
}

}  // namespace

result<pack_head> read_pack_head(int fd, uint64_t file_bytes, const std::string& path) {
    if (file_bytes < limits::page_bytes)
        return with_path(
            fail(code::damaged, "the file has only " + format_bytes(file_bytes) + "; it is torn or no pack of Varde"),
            path);
    auto image = read_header(fd, file_bytes, path);
    if (!image) return std::move(image).error();
    const auto seal = read_part(fd, image->seal_offset, image->seal_bytes, path);
    if (!seal) return seal.error();
    auto sums = pack::parse_seal(*image, seal->bytes);
    if (!sums) return with_path(std::move(sums).error(), path);
    return pack_head{std::move(*image), std::move(*sums), pack::checksum(seal->bytes)};
}

}  // namespace varde::store
