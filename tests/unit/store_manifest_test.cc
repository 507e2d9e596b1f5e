// manifest.json: what goes in comes out, and nothing else does.
#include "store_support.h"

#include "store/manifest.h"

using namespace store_test;

namespace {

std::string text_with(const std::string& from, const std::string& to) {
    std::string text = need(encode_manifest(manifest_of({1200, 3}, 2)));
    const size_t at = text.find(from);
    cr_assert(at != std::string::npos, "%s", from.c_str());
    return text.replace(at, from.size(), to);
}

}  // namespace

Test(manifest, comes_back_as_it_went_in) {
    manifest record = manifest_of({UINT64_MAX, 3}, 2048);
    record.packs[7].seal_checksum = UINT64_MAX;
    const manifest read = need(decode_manifest(need(encode_manifest(record))));
    cr_assert(same_packs(read, record));
    cr_assert_eq(read.wall_ns, record.wall_ns);
    cr_assert(read.library == record.library && read.packs[2047].host == "host2047");
}

Test(manifest, foreign_bytes_are_refused) {
    for (const std::string& text :
         {std::string(), std::string("{}"), std::string("[]"), std::string("null"), std::string("{\"format\":"),
          std::string(100'000, '['), std::string("\xff\xfe"), std::string(1000, '\0')})
        refused(decode_manifest(text), code::damaged);
}

Test(manifest, each_wrong_member_is_refused) {
    const std::pair<const char*, const char*> changes[] = {
        {"\"varde-manifest\"", "\"other\""},
        {"\"version\": 1", "\"version\": 2"},
        {"\"run\": \"run\"", "\"run\": 7"},
        {"\"run\": \"run\"", "\"run\": \"\""},
        {"\"step\": 1200", "\"step\": -1"},
        {"\"step\": 1200", "\"step\": 1.5"},
        {"\"world\": 16", "\"world\": 0"},
        {"\"world\": 16", "\"world\": 4294967297"},
        {"\"node\": 1", "\"node\": 0"},
        {"\"size_bytes\": 4096", "\"size_bytes\": 0"},
        {"\"size_bytes\": 4096", "\"size_bytes\": 9223372036854775808"},
        {"\"size_bytes\": 4096", "\"size_bytes\": \"4096\""},
        {"\"1234567890abcdef\"", "\"1234567890abcde\""},
        {"\"1234567890abcdef\"", "\"1234567890abcdeg\""},
        {"\"1234567890abcdef\"", "\"-234567890abcdef\""},
        {"\"packs\"", "\"stacks\""},
        {"\"seal\"", "\"sail\""},
        {"\"incarnation\": 3", "\"incarnation\": null"},
    };
    for (const auto& [from, to] : changes) {
        const result<manifest> read = decode_manifest(text_with(from, to));
        cr_assert(!read && read.error().what == code::damaged, "%s -> %s", from, to);
    }
}

Test(manifest, sums_beyond_any_file_are_refused) {
    manifest record = manifest_of({1, 1}, 3);
    for (manifest_pack& pack : record.packs) pack.size_bytes = 1ULL << 62;
    refused(encode_manifest(record), code::invalid, "size");
}

Test(manifest, unknown_members_are_ignored) {
    cr_assert(decode_manifest(text_with("\"version\": 1", "\"version\": 1, \"later\": {\"x\": [1]}")).has_value());
}

Test(manifest, host_names_that_are_no_text_are_replaced) {
    manifest record = manifest_of({1, 1}, 1);
    record.packs[0].host = "h\xff";
    cr_assert(decode_manifest(need(encode_manifest(record))).has_value());
}

Test(manifest, records_that_make_no_sense_are_not_written) {
    manifest record = manifest_of({1, 1}, 2);
    record.packs[1].node_index = 0;
    refused(encode_manifest(record), code::invalid, "order");
    refused(encode_manifest(manifest_of({1, 1}, 0)), code::invalid, "number of packs");
}

Test(damage, keeps_its_reason_and_survives_nonsense) {
    cr_assert(decode_damage(encode_damage("chunk 3 is \"wrong\"\n")) == "chunk 3 is \"wrong\"\n");
    for (const char* text : {"", "{}", "[", "{\"reason\": 3}", "{\"reason\": \"\"}"})
        cr_assert(decode_damage(text) == "marked as damaged, without a reason");
}
