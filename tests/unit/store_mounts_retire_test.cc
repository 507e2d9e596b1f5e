// Retention of packs on mounts: what is superfluous goes from there, and nothing else.
#include "store_mounts_support.h"

using namespace store_test;
namespace fs = std::filesystem;

namespace {

constexpr uint32_t nodes = 4;

std::string retired_path(const run_directory& run, generation_id id) {
    return run.path() + "/.retired-" + generation_name(id);
}

}  // namespace

Test(mounts_retire, what_is_superfluous_is_gone_from_all_mounts) {
    const mounted m;
    run_directory run = m.open();
    need(need(run.create_pack({1, 1}, 1, nodes, 4096)).seal());  // never finished
    for (uint64_t step = 2; step <= 4; ++step) write_generation(run, {step, 1}, nodes);
    std::vector<std::string> left;
    cr_assert_eq(need(run.retire(1, {4, 1}, &left)), 3);
    cr_assert(left.empty());
    for (size_t i = 0; i < 2; ++i) {
        cr_assert_eq(count_below(m.root(run, i), "node-"), nodes / 2);
        for (uint64_t step = 1; step <= 3; ++step)
            cr_assert(!exists(m.root(run, i) + "/" + generation_name({step, 1})));
    }
    cr_assert_eq(count_below(run.path(), "node-"), nodes);
    cr_assert(need(run.choose(nullptr)).id == id_of(4, 1));
}

Test(mounts_retire, one_that_was_interrupted_is_finished) {
    const mounted m;
    run_directory run = m.open();
    for (uint64_t step = 1; step <= 2; ++step) write_generation(run, {step, 1}, nodes);
    fs::rename(generation_path(run, {1, 1}), retired_path(run, {1, 1}));
    fs::remove(mounted::true_path(run, {2, 1}, 0, nodes) + ".none");
    cr_assert_eq(need(run.retire(2, {2, 1})), 0);
    cr_assert(!exists(retired_path(run, {1, 1})));
    for (size_t i = 0; i < 2; ++i) cr_assert(!exists(m.root(run, i) + "/" + generation_name({1, 1})));
    cr_assert_eq(count_below(m.root(run, 0), "node-"), nodes / 2);
}

// The newest is whole without the mount; the older ones are superfluous, and what of them is out of reach stays named.
Test(mounts_retire, what_is_on_a_mount_that_is_away_goes_when_it_is_back) {
    const mounted m;
    run_directory run = m.open();
    for (uint64_t step = 1; step <= 2; ++step) write_generation(run, {step, 1}, nodes);
    m.take_away(1);
    write_generation(run, {3, 1}, nodes);
    refused(run.retire(1, {3, 1}), code::io, m.mounts[1].c_str());
    cr_assert(exists(retired_path(run, {1, 1})) && exists(retired_path(run, {2, 1})));
    cr_assert_eq(count_below(m.root(run, 0), "node-"), nodes,
                 "those of step 3; all others that can be reached are gone");
    cr_assert(need(run.choose(nullptr)).id == id_of(3, 1));
    refused(run.retire(1, {3, 1}), code::io, m.mounts[1].c_str());
    m.bring(1);
    cr_assert_eq(count_below(m.root(run, 1), "node-"), nodes);
    cr_assert_eq(need(run.retire(1, {3, 1})), 0);
    cr_assert_eq(count_below(m.root(run, 1), "node-"), 0);
    cr_assert(!exists(retired_path(run, {1, 1})) && !exists(retired_path(run, {2, 1})));
}

// A user who has deleted all generations but the hidden rest, and the roster, begins anew with the same numbers.
Test(mounts_retire, what_is_left_of_an_old_generation_does_not_take_a_new_one_of_its_name_with_it) {
    const mounted m;
    run_directory run = m.open();
    for (uint64_t step = 1; step <= 2; ++step) write_generation(run, {step, 1}, nodes);
    m.take_away(1);
    write_generation(run, {3, 1}, nodes);
    refused(run.retire(1, {3, 1}), code::io, m.mounts[1].c_str());
    m.bring(1);
    fs::remove_all(generation_path(run, {3, 1}));
    write_generation(run, {1, 1}, nodes);
    cr_assert_eq(need(run.retire(1, {1, 1})), 0);
    cr_assert(!exists(retired_path(run, {1, 1})));
    const generation chosen = need(run.choose(nullptr));
    cr_assert(chosen.id == id_of(1, 1) && chosen.size_bytes == nodes * 4096);
    write_generation(run, {2, 1}, nodes);
    for (uint32_t node = 0; node < nodes; ++node)
        cr_assert(is_link(generation_path(run, {2, 1}) + "/" + pack_name(node, nodes)), "on its mount again");
}

Test(mounts_retire, the_newest_complete_one_stays_though_its_packs_look_gone) {
    const mounted m;
    run_directory run = m.open();
    for (uint64_t step = 1; step <= 3; ++step) write_generation(run, {step, 1}, nodes);
    // Another file system, where nobody knows the run.
    m.take_away(1);
    cr_assert_eq(::mount("none", m.mounts[1].c_str(), "tmpfs", 0, nullptr), 0);
    refused(run.retire(1, {3, 1}), code::io, "or has lost that directory");
    m.take_away(1);
    m.bring(1);
    for (uint64_t step = 1; step <= 3; ++step) cr_assert(exists(generation_path(run, {step, 1})));
    cr_assert(need(run.choose(nullptr)).id == id_of(3, 1));
}

Test(mounts_retire, what_a_person_has_moved_is_told_of_and_stays) {
    const mounted m;
    run_directory run = m.open();
    for (uint64_t step = 1; step <= 4; ++step) write_generation(run, {step, 1}, nodes);
    fs::rename(generation_path(run, {1, 1}), run.path() + "/best");
    fs::remove_all(generation_path(run, {2, 1}));
    fs::create_directory(m.root(run, 0) + "/" + generation_name({3, 7}));  // newer than all: not for us to judge
    fs::create_directory(m.root(run, 0) + "/" + generation_name({1, 0}));
    std::vector<std::string> left;
    cr_assert_eq(need(run.retire(1, {4, 1}, &left)), 1);
    cr_assert_eq(left.size(), 4, "two generations on two mounts");
    cr_assert(left[0].find("has no directory in '" + run.path()) != std::string::npos, "%s", left[0].c_str());
    for (uint32_t node = 0; node < nodes; ++node)
        cr_assert(fs::is_regular_file(run.path() + "/best/" + pack_name(node, nodes)), "through its link");
    cr_assert(!exists(m.root(run, 0) + "/" + generation_name({1, 0})), "empty");
    cr_assert(exists(m.root(run, 0) + "/" + generation_name({3, 7})));
}

// Inode numbers repeat on other file systems, and paths are used again.
Test(mounts_retire, a_root_is_ours_only_by_path_and_inode) {
    const mounted m;
    run_directory run = m.open();
    for (uint64_t step = 1; step <= 2; ++step) write_generation(run, {step, 1}, nodes);
    struct stat info {};
    cr_assert_eq(::stat(run.path().c_str(), &info), 0);
    const std::string owner = m.root(run, 0) + "/owner", own = read_file(owner);
    cr_assert(own == std::to_string(info.st_ino) + " " + fs::canonical(run.path()).string() + "\n", "%s", own.c_str());
    std::vector<std::string> left;
    uint64_t newest = 2;
    for (const std::string& text : {std::to_string(info.st_ino) + " /tmp\n", std::to_string(info.st_ino) + " /none\n",
                                    "1 " + fs::canonical(run.path()).string() + "\n", std::string("?")}) {
        write_file(owner, text);
        cr_assert_eq(need(run.retire(1, {newest, 1}, &left)), 1);
        cr_assert(left.size() == 1 && left[0].starts_with("'" + m.root(run, 0)), "%s", text.c_str());
        cr_assert_eq(count_below(m.root(run, 0) + "/" + generation_name({newest - 1, 1}), "node-"), nodes / 2);
        write_file(owner, own);
        write_generation(run, {++newest, 1}, nodes);
    }
}

Test(mounts_retire, files_of_others_survive) {
    const mounted m;
    run_directory run = m.open();
    for (uint64_t step = 1; step <= 2; ++step) write_generation(run, {step, 1}, nodes);
    const std::string there = m.root(run, 1) + "/" + generation_name({1, 1});
    write_file(there + "/notes.txt", "mine");
    // Links that a person has made: to a pack of another generation, and out of the run.
    const std::string old = generation_path(run, {1, 1});
    write_file(m.at.path() + "/outside", "outside");
    fs::create_symlink(mounted::true_path(run, {2, 1}, 0, nodes), old + "/.left-0123456789abcdef");
    fs::create_symlink(m.at.path() + "/outside", old + "/.new-0123456789abcdef");
    cr_assert_eq(need(run.retire(1, {2, 1})), 1);
    cr_assert(read_file(there + "/notes.txt") == "mine");
    cr_assert(!exists(there + "/" + pack_name(1, nodes)));
    cr_assert(read_file(m.at.path() + "/outside") == "outside");
    cr_assert(need(run.choose(nullptr)).size_bytes == nodes * 4096);
}

Test(mounts_retire, a_run_that_has_mounts_no_more_is_read_and_retired_all_the_same) {
    const mounted m;
    run_directory spread = m.open();
    for (uint64_t step = 1; step <= 2; ++step) write_generation(spread, {step, 1}, nodes);
    run_directory run = need(run_directory::open(m.at.path() + "/runs", "run", true));
    write_generation(run, {3, 1}, nodes);
    cr_assert_eq(need(run.retire(2, {3, 1})), 1);
    cr_assert_eq(count_below(m.root(run, 0), "node-"), nodes / 2);
    cr_assert_eq(need(run.retire(1, {3, 1})), 1);
    cr_assert_eq(count_below(m.root(run, 0), "node-") + count_below(m.root(run, 1), "node-"), 0);
}

Test(mounts_retire, a_root_is_no_directory_of_a_run) {
    const mounted m;
    run_directory run = m.open();
    write_generation(run, {1, 1}, nodes);
    const fs::path root = m.root(run, 0);
    refused(run_directory::open(root.parent_path(), root.filename(), true), code::invalid, "another run's packs");
}
