// compose(): the header of a pack, written once and in one pass.
#include "base/checked.h"
#include "base/limits.h"
#include "pack/entries.h"
#include "pack/layout.h"
#include "pack/text.h"

#include <bit>
#include <cstring>

namespace varde::pack {

namespace {

static_assert(std::endian::native == std::endian::little, "packs are little-endian, and written from memory as it is");

void append_list(std::string& target, std::span<const uint64_t> numbers) {
    target += '[';
    for (size_t index = 0; index < numbers.size(); index++) {
        if (index > 0) target += ',';
        append_number(target, numbers[index]);
    }
    target += ']';
}

void append_pair(std::string& target, std::string_view name, std::string_view value) {
    if (target.back() != '{') target += ',';
    append_json_string(target, name);
    target += ':';
    append_json_string(target, value);
}

std::string ranks_text(const image& pack) {
    std::string text;
    for (const placed_range& each : pack.ranges) {
        if (!text.empty()) text += ',';
        append_number(text, each.what.rank);
    }
    return text;
}

// {"rank00017/NAME":{"shape":[GLOBAL],"offset":[PLACE]},...} of the shards that are pieces, in file order.
std::string split_text(const image& pack) {
    std::string text = "{";
    for (const placed_range& where : pack.ranges) {
        const std::string prefix = rank_prefix(where.what.rank);
        for (const shard& each : where.what.shards) {
            if (each.global_shape.empty()) continue;
            if (text.size() > 1) text += ',';
            append_json_string(text, prefix + each.name);
            text += ":{\"shape\":";
            append_list(text, each.global_shape);
            text += ",\"offset\":";
            append_list(text, each.offset);
            text += '}';
        }
    }
    return text += '}';
}

void append_metadata(std::string& target, const image& pack) {
    append_json_string(target, keys::metadata);
    target += ":{";
    append_pair(target, keys::format, std::to_string(format_version));
    append_pair(target, keys::run, pack.who.run);
    append_pair(target, keys::step, std::to_string(pack.who.step));
    append_pair(target, keys::incarnation, std::to_string(pack.who.incarnation));
    append_pair(target, keys::node_index, std::to_string(pack.who.node_index));
    append_pair(target, keys::node_count, std::to_string(pack.who.node_count));
    append_pair(target, keys::world, std::to_string(pack.who.world));
    append_pair(target, keys::ranks, ranks_text(pack));
    append_pair(target, keys::library, pack.who.library);
    append_pair(target, keys::chunk_bytes, std::to_string(pack.chunk_bytes));
    append_pair(target, keys::split, split_text(pack));
    target += '}';
}

std::string header_json(const image& pack) {
    std::string text = "{";
    append_metadata(text, pack);
    entry_cursor cursor(pack, 0);
    for (entry each; cursor.next(each);) {
        text += ',';
        append_json_string(text, each.name);
        text += ":{\"dtype\":\"";
        text += each.type;
        text += "\",\"shape\":";
        append_list(text, each.shape);
        text += ",\"data_offsets\":[";
        append_number(text, each.begin);
        text += ',';
        append_number(text, each.end);
        text += "]}";
    }
    return text += '}';
}

// Whoever built a range by hand must not get a pack that no reader opens.
bool arranged(const range& what) {
    uint64_t offset = 0;
    for (const shard& each : what.shards) {
        if (each.offset_bytes != offset || each.size_bytes > limits::range_bytes_max) return false;
        offset += each.size_bytes;
    }
    return what.data_bytes == offset && offset <= limits::range_bytes_max &&
           what.size_bytes == align_up(offset, limits::page_bytes);
}

}  // namespace

result<image> compose(identity who, std::vector<range> ranges, uint64_t chunk_bytes) {
    if (auto good = check_identity(who, ranges, chunk_bytes); !good) return std::move(good).error();
    for (const range& each : ranges) {
        if (!arranged(each))
            return fail(code::internal, "couldn't lay out the pack: rank " + std::to_string(each.rank) +
                                            " is not as arrange() makes it");
    }
    image made;
    made.who = std::move(who);
    made.chunk_bytes = chunk_bytes;
    // Offsets in the header count from its end, so they are known before its length is.
    place(made, std::move(ranges), 0);
    const std::string json = header_json(made);
    const uint64_t header_bytes = align_up(sizeof(uint64_t) + json.size(), limits::page_bytes);
    const uint64_t json_bytes = header_bytes - sizeof(uint64_t);
    if (json_bytes > limits::header_bytes_max)
        return fail(code::invalid, "couldn't lay out the pack: its header has " + std::to_string(json_bytes) +
                                       " bytes, more than the format's " + std::to_string(limits::header_bytes_max) +
                                       "; use fewer tensors or shorter names");
    made.header.reserve(header_bytes);
    made.header.resize(sizeof json_bytes);
    std::memcpy(made.header.data(), &json_bytes, sizeof json_bytes);
    made.header += json;
    made.header.resize(header_bytes, ' ');
    made.header_checksum = checksum(std::as_bytes(std::span(made.header)));
    for (placed_range& each : made.ranges) each.file_offset += header_bytes;
    made.seal_offset += header_bytes;
    made.file_bytes += header_bytes;
    return made;
}

}  // namespace varde::pack
