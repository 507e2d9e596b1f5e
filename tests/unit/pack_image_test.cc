// compose() and parse_header(): what goes in comes out, for every kind of tensor and for many.
#include "base/clock.h"
#include "base/limits.h"
#include "pack/reader.h"
#include "tests/tools/pack_bytes.h"

#include <criterion/criterion.h>
#include <fstream>
#include <iterator>

using namespace varde;
using namespace varde::pack;

namespace {

range arranged(uint32_t rank, std::vector<shard> shards) {
    auto made = arrange(rank, std::move(shards));
    cr_assert(made.has_value(), "%s", made ? "" : made.error().context.c_str());
    return std::move(*made);
}

identity someone() {
    return {.run = "run-1",
            .step = 1200,
            .incarnation = 3,
            .node_index = 2,
            .node_count = 4,
            .world = 64,
            .library = "0.1.0"};
}

image composed(std::vector<range> ranges, uint64_t chunk_bytes = 4096) {
    auto made = compose(someone(), std::move(ranges), chunk_bytes);
    cr_assert(made.has_value(), "%s", made ? "" : made.error().context.c_str());
    return std::move(*made);
}

void expect_round_trip(const image& made) {
    const auto bytes = std::as_bytes(std::span(made.header));
    const auto size = header_bytes(bytes.first(8), made.file_bytes);
    cr_assert(size.has_value() and *size == made.header.size());
    const auto read = parse_header(bytes, made.file_bytes);
    cr_assert(read.has_value(), "%s", read ? "" : read.error().context.c_str());
    cr_expect(*read == made);
}

}  // namespace

Test(pack_image, lays_ranges_and_seal_out_on_pages) {
    const image made =
        composed({arranged(1, {{.name = "a", .type = dtype::u8, .shape = {5000}, .global_shape = {}, .offset = {}}}),
                  arranged(5, {}),
                  arranged(6, {{.name = "a", .type = dtype::u8, .shape = {4096}, .global_shape = {}, .offset = {}}})});
    const uint64_t header = made.header.size();
    cr_expect(header % 4096 == 0);
    cr_expect(made.ranges[0].file_offset == header and made.ranges[0].first_chunk == 0);
    cr_expect(made.ranges[1].file_offset == header + 8192 and made.ranges[1].first_chunk == 2);
    cr_expect(made.ranges[2].file_offset == header + 8192 and made.ranges[2].first_chunk == 2);
    cr_expect(made.chunk_count == 3 and made.seal_offset == header + 12288 and made.seal_bytes == 4096);
    cr_expect(made.file_bytes == made.seal_offset + 4096);
    cr_expect(
        made.header.find("\"varde.pad/rank00001\":{\"dtype\":\"U8\",\"shape\":[3192],\"data_offsets\":[5000,8192]}") !=
        std::string::npos);
    cr_expect(made.header.find("varde.pad/rank00005") == std::string::npos);
    cr_expect(made.header.find("varde.pad/rank00006") == std::string::npos);
    expect_round_trip(made);
}

Test(pack_image, round_trips_every_kind_of_tensor) {
    auto who = someone();
    who.world = 70001;
    const auto made = compose(
        who, {arranged(0, test::example_shards(0)), arranged(9, {}), arranged(70000, test::example_shards(49))}, 8192);
    cr_assert(made.has_value());
    expect_round_trip(*made);
}

Test(pack_image, round_trips_packs_without_data) {
    expect_round_trip(composed({}));
    expect_round_trip(composed({arranged(0, {}), arranged(63, {})}));
    expect_round_trip(composed(
        {arranged(0, {{.name = "empty", .type = dtype::f64, .shape = {0}, .global_shape = {8}, .offset = {8}}})}));
}

Test(pack_image, finds_each_chunk) {
    const image made =
        composed({arranged(1, {{.name = "a", .type = dtype::u8, .shape = {20000}, .global_shape = {}, .offset = {}}}),
                  arranged(2, {{.name = "a", .type = dtype::u8, .shape = {1}, .global_shape = {}, .offset = {}}})},
                 8192);
    const auto last = place_of_chunk(made, made.ranges[0], 2);
    cr_expect(last.file_offset == made.header.size() + 16384 and last.size_bytes == 4096 and last.index == 2);
    const auto other = place_of_chunk(made, made.ranges[1], 0);
    cr_expect(other.file_offset == made.header.size() + 20480 and other.size_bytes == 4096 and other.index == 3);
}

Test(pack_image, refuses_a_wrong_identity) {
    const auto refused = [](auto change, uint64_t chunk_bytes = 4096) {
        identity who = someone();
        std::vector<range> ranges{arranged(3, {}), arranged(4, {})};
        change(who, ranges);
        const auto made = compose(who, std::move(ranges), chunk_bytes);
        return not made.has_value() and made.error().what != code::damaged;
    };
    const auto nothing = [](identity&, std::vector<range>&) {};
    cr_expect(not refused(nothing));
    cr_expect(refused([](identity& who, auto&) { who.run = ""; }));
    cr_expect(refused([](identity& who, auto&) { who.run = "a/b"; }));
    cr_expect(refused([](identity& who, auto&) { who.world = 4; }));
    cr_expect(refused([](identity& who, auto&) { who.world = 0; }));
    cr_expect(refused([](identity& who, auto&) { who.world = limits::world_max + 1; }));
    cr_expect(refused([](identity& who, auto&) { who.node_index = 4; }));
    cr_expect(refused([](identity& who, auto&) { who.node_count = 0; }));
    cr_expect(refused([](identity& who, auto&) { who.node_count = limits::nodes_max + 1; }));
    cr_expect(refused([](identity& who, auto&) { who.library = "0.1\n"; }));
    cr_expect(refused([](identity& who, auto&) { who.library = std::string(65, '1'); }));
    cr_expect(refused([](identity&, auto& ranges) { std::swap(ranges[0], ranges[1]); }));
    cr_expect(refused([](identity&, auto& ranges) { ranges[1].rank = 3; }));
    cr_expect(refused([](identity&, auto& ranges) { ranges[1].size_bytes = 4096; }));
    for (const uint64_t chunk_bytes : {uint64_t{0}, uint64_t{4095}, uint64_t{6144}, limits::chunk_bytes_max + 4096})
        cr_expect(refused(nothing, chunk_bytes));
}

Test(pack_image, refuses_too_many_ranks_tensors_and_a_header_too_long) {
    std::vector<range> ranges(limits::local_ranks_max + 1);
    for (uint32_t rank = 0; rank < ranges.size(); rank++) ranges[rank].rank = rank;
    identity who = someone();
    who.world = 1000;
    cr_expect(not compose(who, ranges, 4096).has_value());
    std::vector<shard> shards(60'000);
    for (size_t index = 0; index < shards.size(); index++) shards[index].name = std::to_string(index);
    const range many = arranged(0, shards);
    range more = many;
    more.rank = 1;
    cr_expect(not compose(who, {many, more}, 4096).has_value());
    const range large =
        arranged(0, {{.name = "a", .type = dtype::u8, .shape = {1ULL << 37}, .global_shape = {}, .offset = {}}});
    const auto chunks = compose(who, {large}, 4096);
    cr_assert(not chunks.has_value());
    cr_expect(chunks.error().context.find("use larger chunks") != std::string::npos);
    cr_expect(compose(who, {large}, 8192).has_value());
    for (shard& each : shards) {
        each.name.resize(limits::tensor_name_bytes_max, '"');
        each.shape = {1};
        each.global_shape = {1};
        each.offset = {0};
    }
    const auto made = compose(who, {arranged(0, shards)}, 4096);
    cr_assert(not made.has_value());
    cr_expect(made.error().context.find("use fewer tensors or shorter names") != std::string::npos);
}

Test(pack_image, composes_and_parses_100000_tensors_in_a_second_each) {
    std::vector<shard> shards(limits::tensors_per_node_max);
    for (size_t index = 0; index < shards.size(); index++) {
        shards[index] = {.name = "model.layers." + std::to_string(index) + ".self_attention.query_key_value.weight",
                         .type = dtype::bf16,
                         .shape = {64, 3},
                         .global_shape = {64, 12},
                         .offset = {0, 3 * (index % 4)}};
    }
    // Processor time, because other programs may run on the machine.
    const auto now = [] { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); };
    const uint64_t start = now();
    const range what = arranged(0, std::move(shards));
    const uint64_t at_arranged = now();
    const image made = composed({what}, limits::chunk_bytes_default);
    const uint64_t at_composed = now();
    const auto read = parse_header(std::as_bytes(std::span(made.header)), made.file_bytes);
    const uint64_t at_parsed = now();
    cr_assert(read.has_value());
    cr_expect(*read == made);
    std::fprintf(stderr, "100000 tensors, %zu header bytes: arrange %lu ms, compose %lu ms, parse %lu ms\n",
                 made.header.size(), (at_arranged - start) / ns_per_ms, (at_composed - at_arranged) / ns_per_ms,
                 (at_parsed - at_composed) / ns_per_ms);
#ifdef __OPTIMIZE__
#ifndef __SANITIZE_ADDRESS__
    for (const uint64_t each : {at_arranged - start, at_composed - at_arranged, at_parsed - at_composed})
        cr_expect(each < ns_per_s);
#endif
#endif
}

// A pack that version 1 of the format wrote; it is never made anew.
Test(pack_image, reads_the_golden_file_of_version_1) {
    std::ifstream file("tests/golden/pack-v1.safetensors", std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    cr_assert(not text.empty(), "run from the repository's root");
    const auto bytes = std::as_bytes(std::span(text));
    const auto read = parse_header(bytes, bytes.size());
    cr_assert(read.has_value(), "%s", read ? "" : read.error().context.c_str());
    const identity who{.run = "example",
                       .step = 1200,
                       .incarnation = 3,
                       .node_index = 1,
                       .node_count = 4,
                       .world = 70001,
                       .library = "0.1.0"};
    cr_expect(read->who == who);
    cr_assert(read->ranges.size() == 3);
    cr_expect(read->ranges[0].what == arranged(3, test::example_shards(3)));
    cr_expect(read->ranges[1].what == arranged(4, {}));
    cr_expect(read->ranges[2].what == arranged(70000, test::example_shards(20)));
    const auto sums = parse_seal(*read, bytes.subspan(read->seal_offset, read->seal_bytes));
    cr_assert(sums.has_value());
    cr_expect(sums->size() == read->chunk_count and read->chunk_count > 2);
    for (const placed_range& where : read->ranges) {
        std::vector<std::byte> expected(where.what.size_bytes);
        test::fill_tensors(where.what, expected);
        cr_expect(std::equal(expected.begin(), expected.end(), bytes.begin() + static_cast<long>(where.file_offset)));
        for (uint64_t chunk = 0; chunk < chunk_count(where.what.size_bytes, read->chunk_bytes); chunk++) {
            const auto place = place_of_chunk(*read, where, chunk);
            cr_expect(verify_chunk(bytes.subspan(place.file_offset, place.size_bytes), (*sums)[place.index],
                                   "the golden file", chunk)
                          .has_value());
        }
    }
}

// FORMAT.md shows lines of a dump; they must be the golden file's.
Test(pack_image, format_page_shows_the_golden_file) {
    std::ifstream page("lib/pack/FORMAT.md");
    std::ifstream file("tests/golden/pack-v1.safetensors", std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    int lines = 0;
    for (std::string line; std::getline(page, line);) {
        if (line.size() < 49 or line.substr(8, 2) != ": " or line.find_first_not_of("0123456789abcdef") != 8) continue;
        const size_t at = std::stoul(line.substr(0, 8), nullptr, 16);
        std::string hex;
        for (const char letter : line.substr(10, 39)) {
            if (letter != ' ') hex += letter;
        }
        cr_assert(hex.size() == 32 and at + 16 <= bytes.size());
        for (size_t byte = 0; byte < 16; byte++)
            cr_expect(std::stoul(hex.substr(2 * byte, 2), nullptr, 16) == static_cast<unsigned char>(bytes[at + byte]),
                      "%s", line.c_str());
        lines++;
    }
    cr_expect(lines == 8);
}
