// Fuzzes what a reader does with a pack's header and seal.
//
// Input: 2 bytes, the pages that follow the header; then the header's JSON, or, where the first byte of the rest is
// no '{', a whole file.  The length, the padding and the seal's own checksum are made right, or no input would get
// past them.
#include "base/limits.h"
#include "pack/plan.h"
#include "pack/reader.h"

#include <cstdlib>
#include <cstring>
#include <string>

using namespace varde;
using namespace varde::pack;

namespace {

void require(bool holds) {
    if (!holds) std::abort();
}

// What was accepted must be what a writer could have written, and must lie within the file.
void check_image(const image& read, uint64_t file_bytes) {
    require(read.file_bytes == file_bytes && read.seal_offset + read.seal_bytes == file_bytes);
    std::vector<range> ranges;
    for (const placed_range& each : read.ranges) {
        require(each.file_offset >= read.header.size() && each.file_offset + each.what.size_bytes <= read.seal_offset);
        ranges.push_back(each.what);
    }
    const auto again = compose(read.who, ranges, read.chunk_bytes);
    require(again.has_value() && again->chunk_count == read.chunk_count && again->ranges.size() == read.ranges.size());
    for (const range& each : ranges) {
        const auto plan = plan_restore(each, ranges);
        if (!plan) continue;
        uint64_t sum = 0;
        for (const piece& part : *plan) sum += part.size_bytes;
        require(sum == each.data_bytes);
    }
}

void check_seal(const image& read, std::span<const uint8_t> tail) {
    std::vector<std::byte> seal(read.seal_bytes);
    if (seal.size() > (1U << 20)) return;
    const std::vector<uint64_t> zeros(read.chunk_count);
    require(parse_seal(read, make_seal(read, zeros)).has_value());
    if (!tail.empty()) std::memcpy(seal.data(), tail.data(), std::min(seal.size(), tail.size()));
    const uint64_t own = checksum(std::span(seal).first(seal.size() - 8));
    std::memcpy(seal.data() + seal.size() - 8, &own, 8);
    discard(parse_seal(read, seal), "any answer will do");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 2) return 0;
    const uint64_t pages = data[0] + 256U * data[1];
    std::string header(reinterpret_cast<const char*>(data) + 2, size - 2);
    uint64_t file_bytes = header.size();
    if (header.starts_with('{')) {
        header.insert(0, 8, '\0');
        header.resize((header.size() + limits::page_bytes - 1) / limits::page_bytes * limits::page_bytes, ' ');
        const uint64_t length = header.size() - 8;
        std::memcpy(header.data(), &length, 8);
        file_bytes = header.size() + pages * limits::page_bytes;
    }
    const auto read = parse_header(std::as_bytes(std::span(header)), file_bytes);
    if (!read) return 0;
    check_image(*read, file_bytes);
    check_seal(*read, std::span(data, size).subspan(2));
    return 0;
}
