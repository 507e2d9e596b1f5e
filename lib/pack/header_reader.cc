// A pack's header, from hostile bytes to the image that compose() made.
//
// The parsed shards go through arrange() and place(), as the writer's did, and each line of the header must then
// say what the writer's walk says.  So offsets, paddings, order and sizes are never believed, only compared.
#include "base/checked.h"
#include "base/limits.h"
#include "base/units.h"
#include "pack/entries.h"
#include "pack/header_json.h"
#include "pack/reader.h"
#include "pack/text.h"

#include <algorithm>
#include <cstring>

namespace varde::pack {

namespace {

failure damaged(const std::string& reason) { return fail(code::damaged, "couldn't read the pack's header: " + reason); }

// What arrange() and the like refuse begins with what a writer wanted; of a file only the reason matters.
failure damaged(const failure& why) {
    const size_t colon = why.context.find(": ");
    const bool verb = why.context.starts_with("couldn't lay out") && colon != std::string::npos;
    return damaged(verb ? why.context.substr(colon + 2) : why.context);
}

// A number in its only form: digits, no leading zero.
result<uint64_t> number(std::string_view text, std::string_view name, uint64_t most) {
    const bool canonical = !text.empty() && (text == "0" || text.front() != '0');
    const auto value = parse_number(text, most);
    if (canonical && value) return *value;
    return damaged(std::string(name) + " is " + in_quotes(text, 40) + " where a number up to " + std::to_string(most) +
                   " belongs");
}

result<uint64_t> metadata_number(const raw_header& raw, std::string_view name, uint64_t most) {
    const std::string* text = raw.find(name);
    if (text == nullptr) return damaged("its metadata lacks " + std::string(name));
    return number(*text, name, most);
}

result<void> check_version(const raw_header& raw) {
    const std::string* text = raw.find(keys::format);
    if (text == nullptr) {
        if (!raw.broken.empty()) return damaged(raw.broken);
        return damaged("its metadata lacks " + std::string(keys::format) + "; the file is no pack of Varde");
    }
    const auto version = number(*text, keys::format, UINT32_MAX);
    if (!version) return version.error();
    if (*version == 0) return damaged("there is no format version 0");
    if (*version > format_version)
        return fail(code::mismatch, "couldn't read the pack's header: it has format version " +
                                        std::to_string(*version) + ", newer than " + std::to_string(format_version) +
                                        "; read it with the version of Varde that wrote it, or a later one");
    return {};
}

result<identity> read_identity(const raw_header& raw) {
    identity who;
    struct row {
        std::string_view name;
        uint64_t most;
        uint64_t value = 0;
    };
    row rows[] = {{keys::step, UINT64_MAX},
                  {keys::incarnation, UINT64_MAX},
                  {keys::node_index, UINT32_MAX},
                  {keys::node_count, UINT32_MAX},
                  {keys::world, UINT32_MAX}};
    for (row& each : rows) {
        const auto value = metadata_number(raw, each.name, each.most);
        if (!value) return value.error();
        each.value = *value;
    }
    const std::string* run = raw.find(keys::run);
    const std::string* library = raw.find(keys::library);
    if (run == nullptr || library == nullptr)
        return damaged("its metadata lacks " + std::string(run == nullptr ? keys::run : keys::library));
    who.run = *run;
    who.library = *library;
    who.step = rows[0].value;
    who.incarnation = rows[1].value;
    who.node_index = static_cast<uint32_t>(rows[2].value);
    who.node_count = static_cast<uint32_t>(rows[3].value);
    who.world = static_cast<uint32_t>(rows[4].value);
    return who;
}

result<std::vector<uint32_t>> read_ranks(const raw_header& raw) {
    const std::string* text = raw.find(keys::ranks);
    if (text == nullptr) return damaged("its metadata lacks " + std::string(keys::ranks));
    std::vector<uint32_t> ranks;
    for (size_t begin = 0; !text->empty() && begin <= text->size();) {
        const size_t end = std::min(text->find(',', begin), text->size());
        const auto rank =
            number(std::string_view(*text).substr(begin, end - begin), keys::ranks, limits::world_max - 1);
        if (!rank) return rank.error();
        if (ranks.size() == limits::local_ranks_max)
            return damaged("it has more than " + std::to_string(limits::local_ranks_max) + " ranks");
        if (!ranks.empty() && *rank <= ranks.back()) return damaged("its ranks do not ascend");
        ranks.push_back(static_cast<uint32_t>(*rank));
        begin = end + 1;
    }
    return ranks;
}

// Moves the pieces' places from varde.split to the shards; both are in file order.
class split_places {
public:
    static result<split_places> read(const raw_header& header) {
        const std::string* text = header.find(keys::split);
        if (text == nullptr) return damaged("its metadata lacks " + std::string(keys::split));
        split_places made;
        made.raw_ = read_split_json(*text);
        if (!made.raw_.broken.empty()) return damaged(std::string(keys::split) + ": " + made.raw_.broken);
        for (const raw_entry& each : made.raw_.entries) {
            // It would read as "not split", and the header would not be what the writer makes of it.
            if (each.shape.empty())
                return damaged(std::string(keys::split) + " has a piece of no dimensions, " + in_quotes(each.name));
        }
        return made;
    }
    void give(const std::string& name, shard& target) {
        if (next_ == raw_.entries.size() || raw_.entries[next_].name != name) return;
        target.global_shape = std::move(raw_.entries[next_].shape);
        target.offset = std::move(raw_.entries[next_].second);
        next_++;
    }
    result<void> check_end() const {
        if (next_ == raw_.entries.size()) return {};
        return damaged(std::string(keys::split) + " names " + in_quotes(raw_.entries[next_].name) +
                       " out of place or for nothing");
    }

private:
    raw_header raw_;
    size_t next_ = 0;
};

// The shards of each rank, in the order of the text.
result<std::vector<range>> read_ranges(const raw_header& raw) {
    const auto ranks = read_ranks(raw);
    if (!ranks) return ranks.error();
    auto places = split_places::read(raw);
    if (!places) return std::move(places).error();
    std::vector<range> ranges;
    size_t next = 0;
    for (const uint32_t rank : *ranks) {
        const std::string prefix = rank_prefix(rank);
        std::vector<shard> shards;
        for (; next < raw.entries.size(); next++) {
            const raw_entry& each = raw.entries[next];
            if (!each.name.starts_with(prefix)) break;
            const auto type = dtype_named(each.type);
            if (!type) return damaged(type.error());
            shards.push_back({.name = each.name.substr(prefix.size()),
                              .type = *type,
                              .shape = each.shape,
                              .global_shape = {},
                              .offset = {}});
            places->give(each.name, shards.back());
        }
        auto made = arrange(rank, std::move(shards));
        if (!made) return damaged(made.error());
        // The padding's line follows; whether it is right is found by the comparison.
        if (made->size_bytes != made->data_bytes) next++;
        ranges.push_back(std::move(*made));
    }
    if (auto good = places->check_end(); !good) return std::move(good).error();
    return ranges;
}

// Each line of the header against the writer's walk.
result<void> compare(const raw_header& raw, const image& pack, uint64_t header_bytes) {
    entry_cursor cursor(pack, header_bytes);
    size_t index = 0;
    for (entry expected; cursor.next(expected); index++) {
        if (index == raw.entries.size()) return damaged("tensor " + in_quotes(expected.name) + " is missing");
        const raw_entry& found = raw.entries[index];
        if (found.name != expected.name)
            return damaged("tensor " + in_quotes(found.name) + " stands in the place of " + in_quotes(expected.name));
        if (found.type != expected.type ||
            !std::equal(found.shape.begin(), found.shape.end(), expected.shape.begin(), expected.shape.end()))
            return damaged("tensor " + in_quotes(found.name) + " has a wrong type or shape");
        if (found.second.size() != 2 || found.second[0] != expected.begin || found.second[1] != expected.end)
            return damaged("tensor " + in_quotes(found.name) + " does not lie at bytes " +
                           std::to_string(expected.begin) + " to " + std::to_string(expected.end) + " as it must");
    }
    if (index < raw.entries.size()) return damaged("tensor " + in_quotes(raw.entries[index].name) + " follows the end");
    return {};
}

result<image> read_image(const raw_header& raw, std::span<const std::byte> header) {
    auto who = read_identity(raw);
    if (!who) return std::move(who).error();
    const auto chunk_bytes = metadata_number(raw, keys::chunk_bytes, limits::chunk_bytes_max);
    if (!chunk_bytes) return chunk_bytes.error();
    auto ranges = read_ranges(raw);
    if (!ranges) return std::move(ranges).error();
    if (auto good = check_identity(*who, *ranges, *chunk_bytes); !good) return damaged(good.error());
    image made;
    made.who = std::move(*who);
    made.chunk_bytes = *chunk_bytes;
    place(made, std::move(*ranges), header.size());
    if (auto good = compare(raw, made, header.size()); !good) return std::move(good).error();
    made.header.assign(reinterpret_cast<const char*>(header.data()), header.size());
    made.header_checksum = checksum(header);
    return made;
}

}  // namespace

result<uint64_t> header_bytes(std::span<const std::byte> first_page, uint64_t file_bytes) {
    uint64_t json_bytes = 0;
    if (first_page.size() < sizeof json_bytes) return damaged("the file is shorter than its 8 bytes of length");
    std::memcpy(&json_bytes, first_page.data(), sizeof json_bytes);
    if (json_bytes > limits::header_bytes_max)
        return damaged("its length of " + std::to_string(json_bytes) + " bytes is beyond the format's " +
                       std::to_string(limits::header_bytes_max));
    const uint64_t size = sizeof json_bytes + json_bytes;
    if (size % limits::page_bytes != 0 || file_bytes % limits::page_bytes != 0)
        return damaged("header or file are no multiple of " + std::to_string(limits::page_bytes) +
                       " bytes; the file is torn or no pack of Varde");
    if (size > file_bytes)
        return damaged("it claims " + std::to_string(size) + " bytes in a file of " + std::to_string(file_bytes) +
                       "; the file is torn");
    return size;
}

result<image> parse_header(std::span<const std::byte> header, uint64_t file_bytes) {
    const auto size = header_bytes(header, file_bytes);
    if (!size) return size.error();
    if (header.size() < *size)
        return damaged("only " + std::to_string(header.size()) + " of its " + std::to_string(*size) +
                       " bytes were read");
    header = header.first(*size);
    std::string_view text(reinterpret_cast<const char*>(header.data()), header.size());
    text.remove_prefix(sizeof(uint64_t));
    text = text.substr(0, text.find_last_not_of(' ') + 1);
    const raw_header raw = read_header_json(text);
    if (auto good = check_version(raw); !good) return std::move(good).error();
    if (!raw.broken.empty()) return damaged(raw.broken);
    auto made = read_image(raw, header);
    if (made && made->file_bytes != file_bytes)
        return damaged("it describes a file of " + std::to_string(made->file_bytes) + " bytes, but the file has " +
                       std::to_string(file_bytes) + (file_bytes < made->file_bytes ? "; the file is torn" : ""));
    return made;
}

}  // namespace varde::pack
