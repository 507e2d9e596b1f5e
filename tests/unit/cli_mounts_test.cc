// `varde` over a run whose packs lie on mounts (agent.mounts): all verbs find them, and say so where they cannot.
#include "cli_support.h"
#include "store_mounts_support.h"

using namespace cli_test;
using store_test::mounted;
using store_test::temporary_directory;
namespace fs = std::filesystem;

namespace {

constexpr store::generation_id id{100, 1};

struct example : mounted {
    example() {
        for (const uint64_t step : {50, 100}) make_generation(at.path() + "/runs", "gpt", {step, 1}, 2, 2, mounts);
        // The whole path, as `varde` shows it.
        run = fs::canonical(at.path() + "/runs/gpt");
        pack = run + "/" + store::generation_name(id) + "/" + store::pack_name(1, 2);
        there = fs::read_symlink(pack);
    }
    std::string run, pack, there;
};

}  // namespace

Test(cli_mounts, every_verb_follows_the_links) {
    const example made;
    cr_assert(made.there.starts_with(made.mounts[1]));
    for (const std::string& path : {made.run, made.run + "/" + store::generation_name(id), made.pack, made.there}) {
        const outcome got = varde_run({"verify", path});
        cr_expect(got.status == 0, "%s: %s%s", path.c_str(), got.out.c_str(), got.err.c_str());
    }
    expect_contains(varde_run({"verify", made.run}).out, "good        " + made.pack);
    const outcome listed = varde_run({"ls", made.run});
    cr_expect(listed.status == 0);
    expect_contains(listed.out, "complete");
    const outcome shown = varde_run({"show", made.run + "/" + store::generation_name(id)});
    cr_expect(shown.status == 0);
    expect_contains(shown.out, made.pack);
    cr_expect(varde_run({"show", made.pack}).status == 0);
}

Test(cli_mounts, a_mount_that_is_away_is_told_and_no_damage) {
    const example made;
    made.take_away(1);
    for (const char* verb : {"ls", "verify"}) {
        const outcome got = varde_run({verb, made.run});
        cr_expect(got.status == 2, "%s", got.out.c_str());
        expect_contains(got.err, made.mounts[1] + "' is not mounted on node '");
    }
    cr_expect(varde_run({"show", made.run + "/" + store::generation_name(id)}).status == 2);
}

Test(cli_mounts, damage_on_a_mount_is_found_under_the_packs_own_name) {
    const example made;
    flip_byte(made.there, 2 * 4096 + 17);
    for (const std::string& path : {made.run, made.there}) {
        const outcome got = varde_run({"verify", path});
        cr_expect(got.status == 1, "%s", got.out.c_str());
        expect_contains(got.out, "damaged     " + (path == made.run ? made.pack : made.there));
    }
}

Test(cli_mounts, a_link_to_anywhere_else_is_not_read) {
    const example made;
    const std::string other = made.run + "/" + store::generation_name({50, 1}) + "/" + store::pack_name(1, 2);
    fs::remove(made.pack);
    fs::create_symlink(fs::read_symlink(other), made.pack);
    const outcome got = varde_run({"verify", made.run});
    cr_expect(got.status == 1, "%s", got.out.c_str());
    expect_contains(got.out, "which is no place of this pack");
    expect_contains(got.out, "is a link to what is no place of this pack");
}
