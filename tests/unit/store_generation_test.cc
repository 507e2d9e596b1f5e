// Which generations are there, what each is worth, and which one a restart takes.
#include "store_support.h"

#include "base/clock.h"

using namespace store_test;

namespace {

generation only(const run_directory& run) {
    const std::vector<generation> all = need(run.list());
    cr_assert_eq(all.size(), 1);
    return all.front();
}

}  // namespace

Test(names, are_padded_and_read_back) {
    cr_assert(generation_name({1200, 3}) == "step-000000001200.r3");
    cr_assert(pack_name(3, 192) == "node-00003-of-00192.safetensors");
    const generation_id id{UINT64_MAX, UINT64_MAX};
    cr_assert(need(parse_generation_name(generation_name(id))) == id);
    for (const char* name :
         {"step-1200.r3", "step-000000001200.r03", "step-000000001200", "step-000000001200.r", "step-000000001200.r3x",
          "step-99999999999999999999999.r1", "step-00000000-001.r1", "", "latest", ".retired-step-000000001200.r3"})
        cr_assert(!parse_generation_name(name).has_value(), "%s", name);
}

Test(run, makes_its_directory_private_and_parents_ordinary) {
    temporary_directory at;
    ::umask(022);
    need(run_directory::open(at.path() + "/a/b", "run", true));
    struct stat info {};
    cr_assert_eq(::stat((at.path() + "/a/b").c_str(), &info), 0);
    cr_assert_eq(info.st_mode & 0777, 0755u);
    cr_assert_eq(::stat((at.path() + "/a/b/run").c_str(), &info), 0);
    cr_assert_eq(info.st_mode & 0777, 0700u);
}

Test(run, missing_directory_is_not_found_and_not_made) {
    temporary_directory at;
    refused(run_directory::open(at.path(), "run", false), code::not_found);
    refused(run_directory::open(at.path() + "/none", "run", false), code::not_found);
    cr_assert(!exists(at.path() + "/run"));
}

Test(run, link_or_file_in_its_place_is_refused) {
    temporary_directory at;
    std::filesystem::create_directory(at.path() + "/real");
    std::filesystem::create_symlink("real", at.path() + "/run");
    refused(run_directory::open(at.path(), "run", true), code::invalid, "link");
    write_file(at.path() + "/file", "x");
    refused(run_directory::open(at.path(), "file", true), code::invalid, "file");
    for (const char* name : {"", ".", "..", "a/b", "a b"})
        cr_assert(!run_directory::open(at.path(), name, true).has_value(), "%s", name);
}

Test(run, directory_of_another_user_is_refused) {
    if (::geteuid() != 0) cr_skip_test("needs root to make one");
    temporary_directory at;
    std::filesystem::create_directory(at.path() + "/run");
    cr_assert_eq(::chown((at.path() + "/run").c_str(), 65534, 65534), 0);
    refused(run_directory::open(at.path(), "run", true), code::invalid, "belongs to user id 65534");
}

Test(list, unreadable_directory_is_an_error) {
    if (::geteuid() != 0) cr_skip_test("needs root to become somebody else");
    temporary_directory at;
    run_directory run = open_run(at);
    write_generation(run, {100, 1}, 1);
    cr_assert_eq(::chmod(at.path().c_str(), 0755), 0);
    cr_assert_eq(::chmod(run.path().c_str(), 0711), 0);
    const int status = in_child([&]() {
        if (::setuid(65534) != 0) return 77;
        const result<run_directory> theirs = run_directory::open(at.path(), "run", false);
        if (!theirs) return theirs.error().what == code::not_found ? 1 : 0;
        const auto listed = theirs->list();
        const auto chosen = theirs->choose(nullptr);
        return !listed && listed.error().what == code::io && !chosen && chosen.error().what == code::io ? 0 : 2;
    });
    cr_assert_eq(status, 0);
}

Test(list, generation_that_cannot_be_read_is_an_error_too) {
    if (::geteuid() != 0) cr_skip_test("needs root to become somebody else");
    temporary_directory at;
    run_directory run = open_run(at);
    write_generation(run, {100, 1}, 1);
    cr_assert_eq(::chmod(at.path().c_str(), 0755), 0);
    cr_assert_eq(::chmod(run.path().c_str(), 0755), 0);  // the run can be read, its generation (0700) cannot
    const int status = in_child([&]() {
        if (::setuid(65534) != 0) return 77;
        const result<run_directory> theirs = run_directory::open(at.path(), "run", false);
        if (!theirs) return 1;
        const auto chosen = theirs->choose(nullptr);
        return !chosen && chosen.error().what == code::io ? 0 : 2;
    });
    cr_assert_eq(status, 0);
}

Test(list, tells_complete_from_incomplete) {
    temporary_directory at;
    run_directory run = open_run(at);
    write_generation(run, {100, 1}, 3);
    write_packs(run, {200, 1}, 3, 1);
    write_packs(run, {300, 2}, 3);  // all sealed, the leader died before the manifest
    for (uint32_t i : {0u, 2u}) make_old(generation_path(run, {200, 1}) + "/" + pack_name(i, 3));
    make_old(generation_path(run, {200, 1}));
    const std::vector<generation> all = need(run.list());
    cr_assert_eq(all.size(), 3);
    cr_assert(all[0].id == id_of(300, 2) && all[0].status == generation_status::complete && !all[0].committed);
    cr_assert(all[1].status == generation_status::incomplete && all[1].packs_sealed == 2 && all[1].node_count == 3);
    cr_assert(all[1].missing == std::vector<uint32_t>{1});
    cr_assert(all[2].status == generation_status::complete && all[2].committed);
    for (const generation& one : all) cr_assert_eq(one.size_bytes, one.packs_sealed * 4096);
    cr_assert_gt(all[0].wall_ns, 1'700'000'000 * ns_per_s);
}

Test(list, fresh_incomplete_one_is_in_writing) {
    temporary_directory at;
    run_directory run = open_run(at);
    pack_file pack = need(run.create_pack({100, 1}, 0, 2, 4096));
    const generation one = only(run);
    cr_assert(one.status == generation_status::writing && one.node_count == 2 && one.packs_sealed == 0);
    cr_assert(one.missing == std::vector<uint32_t>({0, 1}));
}

Test(list, strangers_do_not_disturb) {
    temporary_directory at;
    run_directory run = open_run(at);
    write_generation(run, {100, 1}, 2);
    write_file(run.path() + "/step-000000000200.r1", "a file with a generation's name");
    std::filesystem::create_symlink("step-000000000100.r1", run.path() + "/step-000000000300.r1");
    std::filesystem::create_directory(run.path() + "/.retired-step-000000000400.r1");
    std::filesystem::create_directory(run.path() + "/step-500.r1");
    std::filesystem::remove(run.path() + "/latest");
    std::filesystem::create_symlink("/nowhere", run.path() + "/latest");
    const std::string inside = generation_path(run, {100, 1});
    for (const char* name : {"notes.txt", "node-00001-of-00002.safetensors.bak", "node-1-of-2.safetensors",
                             "node-00002-of-00002.safetensors", "node-00001-of-00002.safetensors.partial",
                             "node-99999999999-of-00002.safetensors"})
        write_file(inside + "/" + name, "x");
    cr_assert(only(run).status == generation_status::complete);
    cr_assert(need(run.choose(nullptr)).id == id_of(100, 1));
}

Test(judge, packs_of_two_counts_are_damage) {
    temporary_directory at;
    run_directory run = open_run(at);
    write_packs(run, {100, 1}, 2);
    write_file(generation_path(run, {100, 1}) + "/" + pack_name(0, 3), "x");
    cr_assert(only(run).status == generation_status::damaged);
    refused(run.choose(nullptr), code::damaged, "nodes");
}

Test(judge, pack_lost_after_the_commit_is_damage) {
    temporary_directory at;
    run_directory run = open_run(at);
    write_generation(run, {100, 1}, 3);
    std::filesystem::remove(generation_path(run, {100, 1}) + "/" + pack_name(2, 3));
    const generation one = only(run);
    cr_assert(one.status == generation_status::damaged && one.missing == std::vector<uint32_t>{2});
    cr_assert(one.reason.find("node 2") != std::string::npos, "%s", one.reason.c_str());
}

Test(judge, manifest_of_another_generation_is_damage) {
    temporary_directory at;
    run_directory run = open_run(at);
    write_generation(run, {100, 1}, 2);
    write_packs(run, {200, 1}, 2);
    std::filesystem::copy_file(generation_path(run, {100, 1}) + "/manifest.json",
                               generation_path(run, {200, 1}) + "/manifest.json");
    refused(run.read_manifest({200, 1}), code::damaged);
    cr_assert(need(run.list())[0].status == generation_status::damaged);
    cr_assert(need(run.choose(nullptr)).id == id_of(100, 1));
}

Test(judge, manifest_that_is_no_json_leaves_the_verdict_to_the_packs) {
    temporary_directory at;
    run_directory run = open_run(at);
    write_packs(run, {100, 1}, 2);
    write_file(generation_path(run, {100, 1}) + "/manifest.json", "{\"format\": ");
    const generation one = only(run);
    cr_assert(one.status == generation_status::complete && !one.committed && !one.reason.empty());
    need(run.commit(manifest_of({100, 1}, 2)));  // a leader may write it anew
    cr_assert(only(run).committed);
}

Test(choose, size_that_is_not_the_manifests_is_damage) {
    temporary_directory at;
    run_directory run = open_run(at);
    write_generation(run, {100, 1}, 2);
    write_generation(run, {200, 1}, 2);
    std::filesystem::resize_file(generation_path(run, {200, 1}) + "/" + pack_name(1, 2), 100);
    cr_assert(need(run.choose(nullptr)).id == id_of(100, 1));
    std::filesystem::resize_file(generation_path(run, {100, 1}) + "/" + pack_name(1, 2), 0);
    refused(run.choose(nullptr), code::damaged, "100 bytes");
}

Test(choose, nothing_ever_finished_is_not_found) {
    temporary_directory at;
    run_directory run = open_run(at);
    refused(run.choose(nullptr), code::not_found);
    write_packs(run, {100, 1}, 2, 0);
    refused(run.choose(nullptr), code::not_found);
}

Test(choose, walks_back_and_never_to_step_zero_in_silence) {
    temporary_directory at;
    run_directory run = open_run(at);
    write_generation(run, {100, 1}, 2);
    write_generation(run, {200, 2}, 2);
    write_packs(run, {300, 2}, 2, 1);
    generation_id chosen = need(run.choose(nullptr)).id;
    cr_assert(chosen == id_of(200, 2));
    need(run.mark_damaged(chosen, "chunk 7 is wrong"));
    cr_assert(need(run.choose(nullptr)).id == id_of(100, 1));
    chosen = need(run.choose(&chosen)).id;
    cr_assert(chosen == id_of(100, 1));
    refused(run.choose(&chosen), code::damaged);
    need(run.mark_damaged(chosen, "chunk 8 is wrong"));
    refused(run.choose(nullptr), code::damaged, "chunk 7 is wrong");
}

Test(choose, marked_damage_keeps_its_first_reason) {
    temporary_directory at;
    run_directory run = open_run(at);
    write_generation(run, {100, 1}, 1);
    need(run.mark_damaged({100, 1}, "first"));
    need(run.mark_damaged({100, 1}, "second"));
    cr_assert(only(run).reason == "first");
}

Test(choose, later_incarnation_of_a_step_wins) {
    temporary_directory at;
    run_directory run = open_run(at);
    write_generation(run, {100, 2}, 1);
    write_generation(run, {100, 10}, 1);
    cr_assert(need(run.choose(nullptr)).id == id_of(100, 10));
    cr_assert(need(run.choose_step(100)).id == id_of(100, 10));
    refused(run.choose_step(101), code::not_found, "step 101");
}

Test(choose, later_incarnation_wins_over_a_later_step) {
    // A restart from step 50 has begun anew; step 200 was abandoned, or comes from a node that was cut off.
    temporary_directory at;
    run_directory run = open_run(at);
    write_generation(run, {200, 1}, 1);
    write_generation(run, {100, 2}, 1);
    cr_assert(need(run.choose(nullptr)).id == id_of(100, 2));
}

Test(choose, fifty_generations_of_two_thousand_packs_take_moments) {
    // Sized down to eight generations here; the bench has the full figure.  What matters is that only one is opened.
    temporary_directory at;
    run_directory run = open_run(at);
    for (uint64_t step = 1; step <= 8; ++step) {
        std::filesystem::create_directory(generation_path(run, {step, 1}));
        for (uint32_t i = 0; i < 512; ++i) write_file(generation_path(run, {step, 1}) + "/" + pack_name(i, 512), "x");
        need(run.commit(manifest_of({step, 1}, 512, 1)));
    }
    const uint64_t start = mono_ns();
    cr_assert(need(run.choose(nullptr)).id == id_of(8, 1));
    cr_assert_lt((mono_ns() - start) / ns_per_ms, 500);
}
