// Tables, ages and places as people read them.
#include "base/clock.h"
#include "cli/check.h"
#include "cli/ls.h"
#include "cli/progress.h"
#include "cli/show.h"
#include "cli/table.h"

#include <criterion/criterion.h>

using namespace varde;
using namespace varde::cli;

Test(cli_format, table_is_as_wide_as_its_cells) {
    table rows({{"NAME"}, {"SIZE", align::right}, {"STATE"}});
    rows.add({"a", "1 GiB", "good"});
    rows.add({"na\xc3\xafve", "10 B", "not so good"});
    cr_expect(rows.text(2) ==
                  "  NAME    SIZE  STATE\n"
                  "  a      1 GiB  good\n"
                  "  na\xc3\xafve   10 B  not so good\n",
              "%s", rows.text(2).c_str());
    cr_expect(table({{"A"}}).text() == "A\n");
}

Test(cli_format, age_has_two_units) {
    const uint64_t now = 1'000'000 * ns_per_s;
    const auto age = [&](uint64_t seconds) { return age_text(now - seconds * ns_per_s, now); };
    cr_expect(age(5) == "5s" and age(1205) == "20m5s" and age(3 * 3600 + 12 * 60 + 9) == "3h12m" and
              age(2 * 86400 + 4 * 3600 + 59) == "2d4h");
    cr_expect(age_text(now + 1, now) == "now" and age(0) == "now");
}

Test(cli_format, state_names_what_is_missing) {
    store::generation what;
    what.status = store::generation_status::complete;
    cr_expect(state_text(what) == "complete");
    what.status = store::generation_status::writing;
    cr_expect(state_text(what) == "writing, no pack yet");
    what.node_count = 4;
    what.packs_sealed = 3;
    what.missing = {2};
    cr_expect(state_text(what) == "writing, node 2 missing");
    what.status = store::generation_status::incomplete;
    what.packs_sealed = 2;
    what.missing = {0, 2};
    cr_expect(state_text(what) == "incomplete, nodes 0, 2 missing");
    what.node_count = 100;
    cr_expect(state_text(what) == "incomplete, nodes 0, 2 and 96 more missing", "%s", state_text(what).c_str());
    what.status = store::generation_status::damaged;
    what.reason = "node 3 says:\x1b[2J";
    cr_expect(state_text(what) == "damaged: node 3 says:\\x1b[2J");
}

Test(cli_format, place_is_written_as_slices) {
    pack::shard what;
    cr_expect(place_text(what) == "whole" and shape_text({}) == "[]" and shape_text({3, 4}) == "[3, 4]");
    what.shape = {2, 3};
    what.global_shape = {4, 3};
    what.offset = {2, 0};
    cr_expect(place_text(what) == "[2:4, 0:3] of [4, 3]", "%s", place_text(what).c_str());
}

Test(cli_format, patterns_choose_tensors) {
    pack::shard what;
    what.name = "layers.3/weight";
    show_options options;
    cr_expect(is_wanted(options, 1, what));
    options.name = "layers.*";
    cr_expect(is_wanted(options, 1, what));
    options.name = "*.bias";
    cr_expect(not is_wanted(options, 1, what));
    options.name.clear();
    options.rank = 2;
    cr_expect(not is_wanted(options, 1, what) and is_wanted(options, 2, what));
}

Test(cli_format, chunk_names_all_tensors_in_it) {
    const auto made =
        pack::arrange(0, {{.name = "a", .type = pack::dtype::u8, .shape = {4096}, .global_shape = {}, .offset = {}},
                          {.name = "empty", .type = pack::dtype::u8, .shape = {0}, .global_shape = {}, .offset = {}},
                          {.name = "b", .type = pack::dtype::u8, .shape = {4097}, .global_shape = {}, .offset = {}},
                          {.name = "c", .type = pack::dtype::u8, .shape = {1}, .global_shape = {}, .offset = {}}});
    cr_assert(made.has_value());
    using names = std::vector<std::string>;
    cr_expect(tensors_in_chunk(*made, 4096, 0) == names{"a"});
    cr_expect(tensors_in_chunk(*made, 4096, 1) == names{"b"});
    cr_expect((tensors_in_chunk(*made, 4096, 2) == names{"b", "c"}));
    cr_expect((tensors_in_chunk(*made, 16384, 0) == names{"a", "b", "c"}));
}

Test(cli_format, progress_tells_share_speed_and_time_left) {
    const uint64_t gib = 1ULL << 30;
    cr_expect(
        progress::line(gib, 4 * gib, ns_per_s) == "[######                  ]  25 %, 1 GiB of 4 GiB, 1 GiB/s, 3s left",
        "%s", progress::line(gib, 4 * gib, ns_per_s).c_str());
    cr_expect(progress::line(0, gib, 0) == "[                        ]   0 %, 0 B of 1 GiB");
    cr_expect(progress::line(2 * gib, gib, ns_per_s) == "[########################] 100 %, 2 GiB of 1 GiB");
    cr_expect(progress::line(0, 0, 0).find("100 %") != std::string::npos);
}
