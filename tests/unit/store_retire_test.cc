// Retention: what goes, what stays, and that files of others are never touched.
#include "store_support.h"

using namespace store_test;

namespace {

std::vector<uint64_t> steps(const run_directory& run) {
    std::vector<uint64_t> found;
    for (const generation& one : need(run.list())) found.push_back(one.id.step);
    return found;
}

void write_incomplete(run_directory& run, generation_id id) { write_packs(run, id, 2, 1); }

}  // namespace

Test(retire, keeps_the_newest_complete_ones) {
    temporary_directory at;
    run_directory run = open_run(at);
    for (uint64_t step = 1; step <= 5; ++step) write_generation(run, {step, 1}, 2);
    cr_assert_eq(need(run.retire(2, {5, 1})), 3);
    cr_assert(steps(run) == std::vector<uint64_t>({5, 4}));
    cr_assert_eq(need(run.retire(2, {5, 1})), 0);
    refused(run.retire(0, {5, 1}), code::invalid);
}

Test(retire, unfinished_ones_go_only_below_the_oldest_kept) {
    temporary_directory at;
    run_directory run = open_run(at);
    write_incomplete(run, {1, 1});
    write_generation(run, {2, 1}, 2);
    write_incomplete(run, {3, 1});
    write_generation(run, {4, 1}, 2);
    write_incomplete(run, {5, 1});
    cr_assert_eq(need(run.retire(2, {4, 1})), 1);
    cr_assert(steps(run) == std::vector<uint64_t>({5, 4, 3, 2}));
    cr_assert_eq(need(run.retire(1, {4, 1})), 2);
    cr_assert(steps(run) == std::vector<uint64_t>({5, 4}));
}

Test(retire, never_touches_damaged_or_newer_ones) {
    temporary_directory at;
    run_directory run = open_run(at);
    for (uint64_t step = 1; step <= 4; ++step) write_generation(run, {step, 1}, 1);
    need(run.mark_damaged({1, 1}, "for people to see"));
    cr_assert_eq(need(run.retire(1, {3, 1})), 1);
    cr_assert(steps(run) == std::vector<uint64_t>({4, 3, 1}));
}

Test(retire, damaged_ones_do_not_count_as_kept) {
    temporary_directory at;
    run_directory run = open_run(at);
    for (uint64_t step = 1; step <= 3; ++step) write_generation(run, {step, 1}, 1);
    need(run.mark_damaged({3, 1}, "bad"));
    std::filesystem::resize_file(generation_path(run, {2, 1}) + "/" + pack_name(0, 1),
                                 5);  // not what its manifest says
    cr_assert_eq(need(run.retire(1, {3, 1})), 0);
    cr_assert(steps(run) == std::vector<uint64_t>({3, 2, 1}));
}

Test(retire, without_a_complete_one_nothing_goes) {
    temporary_directory at;
    run_directory run = open_run(at);
    write_incomplete(run, {1, 1});
    write_incomplete(run, {2, 1});
    cr_assert_eq(need(run.retire(1, {2, 1})), 0);
    cr_assert(steps(run) == std::vector<uint64_t>({2, 1}));
}

Test(retire, files_of_others_survive) {
    temporary_directory at;
    run_directory run = open_run(at);
    write_generation(run, {1, 1}, 1);
    write_generation(run, {2, 1}, 1);
    const std::string old = generation_path(run, {1, 1});
    write_file(old + "/notes.txt", "mine");
    std::filesystem::create_directory(old + "/converted");
    write_file(old + "/converted/model.bin", "mine too");
    write_file(at.path() + "/outside", "outside");
    std::filesystem::create_symlink(at.path() + "/outside", old + "/" + pack_name(0, 1) + ".partial");
    std::filesystem::create_directory(old + "/.new-directory");
    cr_assert_eq(need(run.retire(1, {2, 1})), 1);
    cr_assert(steps(run) == std::vector<uint64_t>({2}));
    const std::string retired = run.path() + "/.retired-step-000000000001.r1";
    cr_assert(read_file(retired + "/notes.txt") == "mine");
    cr_assert(read_file(retired + "/converted/model.bin") == "mine too");
    cr_assert(read_file(at.path() + "/outside") == "outside");
    cr_assert(!exists(retired + "/" + pack_name(0, 1)));
    cr_assert_eq(need(run.retire(1, {2, 1})), 0);
    std::filesystem::remove_all(retired + "/converted");
    std::filesystem::remove(retired + "/.new-directory");
    std::filesystem::remove(retired + "/notes.txt");
    cr_assert_eq(need(run.retire(1, {2, 1})), 0);
    cr_assert(!exists(retired), "what is empty goes the next time");
}

Test(retire, half_deleted_one_is_finished_and_never_listed) {
    temporary_directory at;
    run_directory run = open_run(at);
    write_generation(run, {1, 1}, 2);
    write_generation(run, {2, 1}, 2);
    const std::string retired = run.path() + "/.retired-step-000000000001.r1";
    std::filesystem::rename(generation_path(run, {1, 1}), retired);
    cr_assert(steps(run) == std::vector<uint64_t>({2}));
    cr_assert_eq(need(run.retire(1, {2, 1})), 0);
    cr_assert(!exists(retired));
}

Test(retire, generation_that_comes_again_after_its_retirement_goes_as_well) {
    temporary_directory at;
    run_directory run = open_run(at);
    write_generation(run, {1, 1}, 1);
    write_generation(run, {2, 1}, 1);
    write_file(generation_path(run, {1, 1}) + "/notes.txt", "mine");
    cr_assert_eq(need(run.retire(1, {2, 1})), 1);
    write_generation(run, {1, 1}, 1);  // a straggler of an old incarnation makes the directory anew
    const result<uint32_t> again = run.retire(1, {2, 1});
    cr_assert(!again.has_value(), "the retired name is taken by files of others: said, not hidden");
    cr_assert(need(run.choose(nullptr)).id == id_of(2, 1));
}

// The oldest cannot go: its retired name is taken, by a file of somebody else.
Test(retire, one_that_cannot_go_does_not_keep_the_others) {
    temporary_directory at;
    run_directory run = open_run(at);
    for (uint64_t step = 1; step <= 4; ++step) write_generation(run, {step, 1}, 1);
    write_file(run.path() + "/.retired-step-000000000001.r1", "mine");
    refused(run.retire(1, {4, 1}), code::io, "step-000000000001.r1");
    cr_assert(steps(run) == std::vector<uint64_t>({4, 1}));
}

Test(retire, one_that_cannot_be_read_stays_and_counts_for_nothing) {
    temporary_directory at;
    run_directory run = open_run(at);
    for (uint64_t step = 1; step <= 4; ++step) write_generation(run, {step, 1}, 1);
    // A link is not followed: the error of a manifest that cannot be opened.
    const std::string manifest = generation_path(run, {3, 1}) + "/manifest.json";
    std::filesystem::remove(manifest);
    std::filesystem::create_symlink("elsewhere", manifest);
    cr_assert(!run.retire(2, {4, 1}).has_value());
    cr_assert(exists(generation_path(run, {4, 1})) && exists(generation_path(run, {3, 1})));
    cr_assert(exists(generation_path(run, {2, 1})), "the second that is complete for certain");
    cr_assert(!exists(generation_path(run, {1, 1})));
}

Test(retire, temporary_files_of_dead_writers_go) {
    temporary_directory at;
    run_directory run = open_run(at);
    need(run.open_roster(true));
    write_generation(run, {1, 1}, 1);
    const std::string latest = run.path() + "/.new-0123456789abcdef";
    std::filesystem::create_symlink("step-000000000001.r1", latest);
    const std::vector<std::string> folders{run.path() + "/roster", generation_path(run, {1, 1})};
    for (const std::string& folder : folders) {
        write_file(folder + "/.new-0123456789abcdef", "old");
        make_old(folder + "/.new-0123456789abcdef");
        write_file(folder + "/.new-fedcba9876543210", "of a writer that lives");
    }
    cr_assert_eq(need(run.retire(1, {1, 1})), 0);
    cr_assert(!exists(latest));
    for (const std::string& folder : folders) {
        cr_assert(!exists(folder + "/.new-0123456789abcdef"), "%s", folder.c_str());
        cr_assert(exists(folder + "/.new-fedcba9876543210"), "%s", folder.c_str());
    }
}
