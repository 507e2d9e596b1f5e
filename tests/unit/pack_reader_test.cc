// The reader against torn, flipped and forged files: each is refused, none does harm.
#include "base/limits.h"
#include "pack/reader.h"
#include "tests/tools/pack_bytes.h"

#include <criterion/criterion.h>

using namespace varde;
using namespace varde::pack;

namespace {

image small_pack() {
    auto first =
        arrange(0, {{.name = "w", .type = dtype::f32, .shape = {2, 3}, .global_shape = {4, 3}, .offset = {2, 0}},
                    {.name = "b", .type = dtype::u8, .shape = {5}, .global_shape = {}, .offset = {}}});
    auto second =
        arrange(1, {{.name = "w", .type = dtype::f32, .shape = {2, 3}, .global_shape = {4, 3}, .offset = {0, 0}}});
    cr_assert(first.has_value() and second.has_value());
    auto made = compose(
        {.run = "r", .step = 7, .incarnation = 1, .node_index = 0, .node_count = 2, .world = 4, .library = "0.1.0"},
        {std::move(*first), std::move(*second)}, 4096);
    cr_assert(made.has_value());
    return std::move(*made);
}

// Everything a reader does before it uses a byte of a tensor.
result<image> open_whole(std::span<const std::byte> file) {
    const auto size = header_bytes(file.first(std::min<size_t>(file.size(), 4096)), file.size());
    if (!size) return size.error();
    auto made = parse_header(file.first(*size), file.size());
    if (!made) return made;
    const auto sums = parse_seal(*made, file.subspan(made->seal_offset, made->seal_bytes));
    if (!sums) return sums.error();
    for (const placed_range& where : made->ranges) {
        for (uint64_t chunk = 0; chunk < chunk_count(where.what.size_bytes, made->chunk_bytes); chunk++) {
            const auto place = place_of_chunk(*made, where, chunk);
            if (auto good = verify_chunk(file.subspan(place.file_offset, place.size_bytes), (*sums)[place.index],
                                         "the file", chunk);
                !good)
                return good.error();
        }
    }
    return made;
}

std::string json_of(const image& made) {
    const std::string text = made.header.substr(8);
    return text.substr(0, text.find_last_not_of(' ') + 1);
}

std::string with_length(std::string json) {
    json.resize((json.size() + 8 + 4095) / 4096 * 4096 - 8, ' ');
    const uint64_t size = json.size();
    return std::string(reinterpret_cast<const char*>(&size), 8) + json;
}

// Parses a header of this JSON in a file whose rest is as long as small_pack's.
result<image> parse_json(const std::string& json) {
    const image made = small_pack();
    const std::string header = with_length(json);
    return parse_header(std::as_bytes(std::span(header)), header.size() + made.file_bytes - made.header.size());
}

void expect_damaged(const std::string& json, const char* words) {
    const auto read = parse_json(json);
    cr_assert(not read.has_value(), "accepted %.300s", json.c_str());
    cr_expect(read.error().what == code::damaged, "%s", read.error().context.c_str());
    cr_expect(read.error().context.find(words) != std::string::npos, "'%s' lacks '%s'", read.error().context.c_str(),
              words);
    cr_expect(read.error().context.find('\n') == std::string::npos);
}

// small_pack's JSON with one place changed.
std::string forged(std::string_view find, std::string_view put) {
    std::string json = json_of(small_pack());
    const size_t at = json.find(find);
    cr_assert(at != std::string::npos, "%.*s is not in %s", static_cast<int>(find.size()), find.data(), json.c_str());
    return json.replace(at, find.size(), put);
}

void expect_forgery(std::string_view find, std::string_view put, const char* words) {
    expect_damaged(forged(find, put), words);
}

}  // namespace

Test(pack_reader, opens_a_good_pack) {
    const image made = small_pack();
    const auto file = test::pack_bytes(made);
    const auto read = open_whole(file);
    cr_assert(read.has_value(), "%s", read ? "" : read.error().context.c_str());
    cr_expect(*read == made);
    cr_expect(parse_json(json_of(made)).has_value());
}

Test(pack_reader, refuses_every_truncation) {
    const image made = small_pack();
    const auto file = test::pack_bytes(made);
    for (size_t size = 0; size < file.size(); size += size < 16 ? 1 : 512) {
        const auto read = open_whole(std::span(file).first(size));
        cr_assert(not read.has_value(), "%zu", size);
        cr_expect(read.error().what == code::damaged);
    }
    for (size_t size = file.size() - 8; size < file.size(); size++)
        cr_assert(not open_whole(std::span(file).first(size)).has_value());
    auto longer = file;
    longer.resize(file.size() + 4096);
    cr_expect(not open_whole(longer).has_value());
}

Test(pack_reader, refuses_a_header_that_was_read_in_part) {
    const image made = small_pack();
    const auto bytes = std::as_bytes(std::span(made.header));
    for (size_t size = 0; size < bytes.size(); size += 500)
        cr_expect(not parse_header(bytes.first(size), made.file_bytes).has_value());
    // More than the header is fine: direct reads end at pages.
    std::string more = made.header + std::string(4096, 'x');
    const auto read = parse_header(std::as_bytes(std::span(more)), made.file_bytes);
    cr_assert(read.has_value());
    cr_expect(*read == made);
}

Test(pack_reader, refuses_every_flipped_bit) {
    const image made = small_pack();
    auto file = test::pack_bytes(made);
    for (size_t byte = 0; byte < file.size(); byte++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            file[byte] ^= std::byte{1} << bit;
            cr_assert(not open_whole(file).has_value(), "byte %zu bit %u", byte, bit);
            file[byte] ^= std::byte{1} << bit;
        }
    }
    cr_expect(open_whole(file).has_value());
}

Test(pack_reader, refuses_the_seal_of_another_pack) {
    const image made = small_pack();
    image other = small_pack();
    other.header_checksum++;
    const std::vector<uint64_t> sums(made.chunk_count, 1);
    const auto seal = make_seal(other, sums);
    const auto read = parse_seal(made, seal);
    cr_assert(not read.has_value());
    cr_expect(read.error().what == code::damaged and
              read.error().context.find("the header has checksum") != std::string::npos);
    cr_expect(parse_seal(other, seal).has_value());
}

Test(pack_reader, refuses_forged_seals_whose_checksum_is_right) {
    const image made = small_pack();
    const std::vector<uint64_t> sums(made.chunk_count, 1);
    const auto good = make_seal(made, sums);
    const auto forge = [&](size_t at, uint64_t value) {
        auto seal = good;
        std::memcpy(seal.data() + at, &value, 8);
        const uint64_t own = checksum(std::span(seal).first(seal.size() - 8));
        std::memcpy(seal.data() + seal.size() - 8, &own, 8);
        return not parse_seal(made, seal).has_value();
    };
    cr_expect(not forge(32, 5));  // a chunk's checksum: a good seal of other data
    cr_expect(forge(0, 5));
    cr_expect(forge(16, made.chunk_count + 1));
    cr_expect(forge(16, UINT64_MAX));
    cr_expect(forge(24, 1));
    cr_expect(forge(32 + made.chunk_count * 8, 1));
    cr_expect(not parse_seal(made, std::span(good).first(4088)).has_value());
    cr_expect(not parse_seal(made, {}).has_value());
}

Test(pack_reader, refuses_bad_lengths) {
    const auto refused = [](uint64_t length, uint64_t file_bytes) {
        return not header_bytes(std::as_bytes(std::span(&length, 1)), file_bytes).has_value();
    };
    cr_expect(not refused(4088, 8192));
    cr_expect(refused(4088, 8193));
    cr_expect(refused(4087, 8192));
    cr_expect(refused(0, 8192));
    cr_expect(refused(8184, 4096));
    cr_expect(refused(UINT64_MAX, 8192));
    cr_expect(refused(UINT64_MAX - 7, 8192));
    cr_expect(refused(1ULL << 40, 1ULL << 50));
    cr_expect(not header_bytes({}, 8192).has_value());
}

Test(pack_reader, refuses_places_that_are_not_the_writers) {
    expect_forgery("\"data_offsets\":[0,24]", "\"data_offsets\":[0,25]", "does not lie at bytes 0 to 24");
    expect_forgery("\"data_offsets\":[0,24]", "\"data_offsets\":[4,28]", "does not lie at");    // hole
    expect_forgery("\"data_offsets\":[24,29]", "\"data_offsets\":[20,25]", "does not lie at");  // overlap
    expect_forgery("\"data_offsets\":[24,29]", "\"data_offsets\":[29,24]", "does not lie at");
    expect_forgery("\"data_offsets\":[24,29]", "\"data_offsets\":[24]", "does not lie at");
    expect_forgery("\"data_offsets\":[24,29]", "\"data_offsets\":[]", "does not lie at");
    expect_forgery("\"data_offsets\":[24,29]", "\"data_offsets\":[24,29,30]", "list of more than 2 numbers");
    expect_forgery("\"data_offsets\":[24,29]", "\"data_offsets\":[24,18446744073709551615]", "does not lie at");
    expect_forgery("\"shape\":[5]", "\"shape\":[6]", "does not lie at");
    expect_forgery("\"shape\":[5]", "\"shape\":[18446744073709551615]", "larger than");
    expect_forgery("\"shape\":[5]", "\"shape\":[5,18446744073709551615,0]", "larger than");
    expect_forgery("\"shape\":[4067],\"data_offsets\":[29,4096]", "\"shape\":[4066],\"data_offsets\":[29,4095]",
                   "wrong type or shape");
}

Test(pack_reader, refuses_numbers_that_are_none) {
    for (const char* put : {"[-5]",
                            "[-0]",
                            "[5.0]",
                            "[5e0]",
                            "[1e400]",
                            "[18446744073709551616]",
                            "[123456789012345678901234567890]",
                            "[NaN]",
                            "[\"5\"]",
                            "[null]",
                            "[true]",
                            "[[5]]",
                            "[{}]",
                            "5",
                            "\"5\"",
                            "null",
                            "[05]",
                            "[0x5]",
                            "[5,]",
                            "[+5]",
                            "{\"5\":5}"}) {
        const auto read = parse_json(forged("\"shape\":[5]", std::string("\"shape\":") + put));
        cr_assert(not read.has_value(), "%s", put);
        cr_expect(read.error().what == code::damaged);
    }
}

Test(pack_reader, refuses_wrong_fields_and_types) {
    expect_forgery("pad/rank00000\":{\"dtype\":\"U8\"", "pad/rank00000\":{\"dtype\":\"I8\"", "wrong type or shape");
    expect_forgery("\"dtype\":\"F32\"", "\"dtype\":\"f32\"", "no element type is called 'f32'");
    expect_forgery("\"dtype\":\"F32\"", "\"dtype\":32", "something else than a string");
    expect_forgery("\"dtype\":\"F32\",", "", "lacks a field");
    expect_forgery("\"dtype\":\"F32\",", "\"dtype\":\"F32\",\"dtype\":\"F32\",", "twice");
    expect_forgery("\"shape\":[5]", "\"shape\":[5],\"shape\":[5]", "twice");
    expect_forgery("\"dtype\":\"F32\",", "\"dtype\":\"F32\",\"more\":1,", "unknown field 'more'");
    expect_forgery("\"dtype\":\"F32\",", "\"offset\":[1],\"dtype\":\"F32\",", "unknown field 'offset'");
    expect_forgery("{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[24,29]}", "[]", "something else than '{'");
    expect_forgery("{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[24,29]}", "{}", "something else than a string");
}

Test(pack_reader, refuses_tensors_out_of_place) {
    expect_forgery("rank00000/b", "rank00000/w", "another tensor of this name");
    expect_forgery("rank00000/b", "rank00000/", "its name is empty");
    expect_forgery("rank00000/b", "rank00002/b", "out of place");
    expect_forgery("rank00000/b", "rank0/b", "out of place");
    expect_forgery("rank00000/b", "b", "out of place");
    expect_forgery("rank00000/b", "rank00000/\\u0000", "zero byte");
    expect_forgery("rank00000/b", "rank00000/\\ud800", "something else than a string");
    expect_forgery("rank00000/b", "rank00000/\xff", "something else than a string");
    expect_forgery("varde.pad/rank00000", "varde.pad/rank00001", "stands in the place of");
    expect_forgery("\"varde.seal\"", "\"varde.sea1\"", "stands in the place of");
    std::string json = json_of(small_pack());
    json.pop_back();
    expect_damaged(json + ",\"x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", "follows the end");
    const size_t seal = json.find(",\"varde.seal\"");
    expect_damaged(json.substr(0, seal) + "}", "'varde.seal' is missing");
}

Test(pack_reader, refuses_wrong_metadata) {
    expect_forgery("\"varde.format\":\"1\"", "\"varde.format\":\"0\"", "no format version 0");
    expect_forgery("\"varde.format\":\"1\"", "\"varde.format\":\"01\"", "varde.format is '01'");
    expect_forgery("\"varde.format\":\"1\"", "\"varde.format\":1", "else than a string");
    expect_forgery("\"varde.format\":\"1\",", "", "no pack of Varde");
    expect_forgery("\"__metadata__", "\"__metadata_", "unknown field 'varde.format'");
    expect_forgery("\"varde.run\":\"r\"", "\"varde.run\":\"../r\"", "a name has");
    expect_forgery("\"varde.run\":\"r\"", "\"varde.run\":\"r\",\"varde.run\":\"r\"", "twice");
    expect_forgery("\"varde.run\":\"r\",", "", "lacks varde.run");
    for (const char* name : {"step", "incarnation", "node_index", "node_count", "world", "chunk_bytes"}) {
        const std::string key = std::string("\"varde.") + name + "\":\"";
        for (const char* put : {"-", "x", " ", "+", "0x"}) expect_forgery(key, key + put, name);
        expect_forgery(key, key + "99999999999999999999", name);
        expect_forgery(key, std::string("\"other.") + name + "\":\"", (std::string("lacks varde.") + name).c_str());
    }
    expect_forgery("\"varde.node_index\":\"0\"", "\"varde.node_index\":\"2\"", "not below the node count");
    expect_forgery("\"varde.node_count\":\"2\"", "\"varde.node_count\":\"65537\"", "not within 1 to 65536");
    expect_forgery("\"varde.world\":\"4\"", "\"varde.world\":\"1\"", "not below the world size");
    expect_forgery("\"varde.chunk_bytes\":\"4096\"", "\"varde.chunk_bytes\":\"0\"", "chunks of 0 bytes");
    expect_forgery("\"varde.chunk_bytes\":\"4096\"", "\"varde.chunk_bytes\":\"4097\"", "chunks of 4097 bytes");
    expect_forgery("\"varde.library\":\"0.1.0\"", "\"varde.library\":\"\\u001b[2J\"", "no plain text");
    for (const char* ranks :
         {"", "0", "1", "0,2", "1,0", "0,0", "0,1,2", "0,,1", ",0,1", "0,1,", "0;1", "00,1", "0,1048576", "0, 1"}) {
        const auto read =
            parse_json(forged("\"varde.ranks\":\"0,1\"", std::string("\"varde.ranks\":\"") + ranks + "\""));
        // A third rank without tensors would be a pack of its own right; all others contradict the tensors.
        cr_expect(read.has_value() == (std::string(ranks) == "0,1,2"), "%s", ranks);
    }
}

Test(pack_reader, refuses_wrong_places_in_the_whole) {
    const std::string first = "\\\"rank00000/w\\\":{\\\"shape\\\":[4,3],\\\"offset\\\":[2,0]}";
    // Left out, the tensor is no piece but a whole: another good header, which the seal does not know.
    const auto whole = parse_json(forged(first + ",", ""));
    cr_assert(whole.has_value());
    cr_expect(whole->ranges[0].what.shards[0].global_shape.empty() and
              whole->header_checksum != small_pack().header_checksum);
    expect_forgery(first, first + "," + first, "out of place");
    expect_forgery("\\\"rank00000/w\\\"", "\\\"rank00000/x\\\"", "out of place");
    expect_forgery("\\\"offset\\\":[2,0]", "\\\"offset\\\":[3,0]", "beyond the global size");
    expect_forgery("\\\"offset\\\":[2,0]", "\\\"offset\\\":[2]", "same count");
    expect_forgery("\\\"offset\\\":[2,0]", "\\\"offset\\\":[-2,0]", "an integer from 0");
    expect_forgery("\\\"shape\\\":[4,3]", "\\\"shape\\\":[]", "no dimensions");
    expect_forgery("\\\"shape\\\":[4,3],", "", "lacks a field");
    expect_forgery("\"varde.split\":\"{", "\"varde.split\":\"[", "varde.split");
    expect_forgery("\"varde.split\":\"{", "\"varde.split\":\"", "varde.split");
}

Test(pack_reader, names_a_version_that_is_too_new) {
    for (const char* json : {"{\"__metadata__\":{\"varde.format\":\"2\"},\"tensors\":[[[[1.5]]]]}",
                             "{\"__metadata__\":{\"varde.format\":\"2\"}}"}) {
        const auto read = parse_json(json);
        cr_assert(not read.has_value());
        cr_expect(read.error().what == code::mismatch, "%s", read.error().context.c_str());
        cr_expect(read.error().context.find("format version 2") != std::string::npos);
    }
}

Test(pack_reader, refuses_text_that_is_no_header) {
    expect_damaged("", "else than '{'");
    expect_damaged("{", "");
    expect_damaged("{}", "no pack of Varde");
    for (const char* text :
         {"{\"__metadata__\":{}", "{\"__metadata__\":{},}", "{,}", "{\"\\", "{\"\\u", "{\"\\u00", "{\"\\u0020\"",
          "{\"\\n\"", "{\"a\": {", "{\"a\"", "{\"a\":{\"shape\":[", "{\"a\":{\"shape\":[1 ,2]", "{\"\n\":{"})
        expect_damaged(text, "");
    expect_damaged("[]", "else than '{'");
    expect_damaged("{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", "no pack of Varde");
    expect_damaged(json_of(small_pack()) + "{}", "else than its end");
    expect_damaged(json_of(small_pack()) + "x", "else than its end");
    expect_damaged(" " + json_of(small_pack()), "else than '{'");
    expect_damaged(json_of(small_pack()) + std::string(1, '\0'), "else than its end");
    expect_damaged(json_of(small_pack()) + "\n", "else than its end");
    expect_damaged("{/*" + json_of(small_pack()).substr(1), "else than a string");
    // Depth costs nothing: it ends at the first level that no header has.
    expect_damaged("{\"a\":" + std::string(1'000'000, '['), "else than '{'");
    std::string objects;
    for (int level = 0; level < 100'000; level++) objects += "{\"a\":";
    expect_damaged(objects, "unknown field");
    expect_damaged("{\"__metadata__\":{\"varde.a\":{\"b\":{}}}}", "else than a string");
}

Test(pack_reader, bounds_counts_before_memory) {
    std::string json = "{\"__metadata__\":{\"varde.format\":\"1\"}";
    for (int index = 0; index < 200'000; index++) json += ",\"\":{\"dtype\":\"\",\"shape\":[],\"data_offsets\":[]}";
    expect_damaged(json + "}", "more than 100257 tensors");
    json = "{\"a\":{\"shape\":[0";
    for (int index = 0; index < 100; index++) json += ",0";
    expect_damaged(json + "]}}", "list of more than 64 numbers");
    json = "{\"__metadata__\":{";
    for (int index = 0; index < 100; index++) json += "\"varde." + std::to_string(index) + "\":\"\",";
    expect_damaged(json + "\"a\":\"\"}}", "more than 64 keys");
}

Test(pack_reader, ignores_metadata_of_other_programs) {
    const std::string json = forged("\"varde.run\"", "\"format\":\"pt\",\"note\":\"x\",\"varde.run\"");
    cr_expect(parse_json(json).has_value());
}

Test(pack_reader, names_the_damaged_chunk) {
    const std::byte bytes[4096]{};
    cr_expect(verify_chunk(bytes, checksum(bytes), "pack 'x'", 3).has_value());
    const auto bad = verify_chunk(bytes, checksum(bytes) + 1, "pack 'x'", 3);
    cr_assert(not bad.has_value());
    cr_expect(bad.error().what == code::damaged);
    cr_expect(bad.error().context.starts_with("chunk 3 of pack 'x' is damaged"), "%s", bad.error().context.c_str());
}
