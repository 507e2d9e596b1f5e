// Packs on mounts (agent.mounts): where they go, who finds them, and what a mount does that is away, full or another's.
#include "store_mounts_support.h"

using namespace store_test;
namespace fs = std::filesystem;

namespace {

constexpr uint32_t nodes = 4;
constexpr generation_id id{100, 1};

void write_pack(run_directory& run, generation_id of, uint32_t node, char content) {
    pack_file pack = need(run.create_pack(of, node, nodes, 4096));
    need(pack.use_buffered());
    const std::string bytes(4096, content);
    cr_assert_eq(::pwrite(pack.fd(), bytes.data(), bytes.size(), 0), 4096);
    need(pack.seal());
}

char first_byte(const run_directory& run, generation_id of, uint32_t node) {
    uint64_t size_bytes = 0;
    const unique_fd fd = need(run.open_pack(of, node, nodes, &size_bytes));
    cr_assert_eq(size_bytes, 4096);
    alignas(4096) static char bytes[4096];
    cr_assert_eq(::pread(fd.get(), bytes, sizeof bytes, 0), 4096);
    return bytes[0];
}

}  // namespace

Test(mounts, packs_lie_on_their_mounts_and_any_reader_finds_them) {
    const mounted m;
    run_directory run = m.open();
    for (uint32_t node = 0; node < nodes; ++node) write_pack(run, id, node, static_cast<char>('a' + node));
    need(run.confirm(manifest_of(id, nodes)));
    need(run.commit(manifest_of(id, nodes)));
    const run_directory reader = need(run_directory::open(m.at.path() + "/runs", "run", false));  // knows no mounts
    for (uint32_t node = 0; node < nodes; ++node) {
        const std::string path = mounted::true_path(run, id, node, nodes);
        cr_assert(path == m.root(run, node % 2) + "/" + generation_name(id) + "/" + pack_name(node, nodes), "%s",
                  path.c_str());
        cr_assert(fs::is_regular_file(fs::symlink_status(path)));
        cr_assert_eq(first_byte(reader, id, node), static_cast<char>('a' + node));
        cr_assert(need(reader.find_pack(id, node, nodes)) == path);
    }
    const generation chosen = need(reader.choose(nullptr));
    cr_assert(chosen.id == id && chosen.committed && chosen.size_bytes == nodes * 4096);
    cr_assert(need(reader.list())[0].status == generation_status::complete);
    for (const std::string& each : {m.root(run, 0), fs::path(m.root(run, 0)).parent_path().string()}) {
        struct stat info {};
        cr_assert(::stat(each.c_str(), &info) == 0 && (info.st_mode & 07777) == 0700 && info.st_uid == ::geteuid());
    }
    cr_assert_eq(count_below(m.at.path(), ".partial"), 0);
}

Test(mounts, without_mounts_nothing_of_them_is_made) {
    const temporary_directory at;
    run_directory run = open_run(at);
    write_generation(run, id, 2);
    need(run.retire(1, id));
    cr_assert(!exists(run.path() + "/place"));
    cr_assert(!is_link(generation_path(run, id) + "/" + pack_name(0, 2)));
}

Test(mounts, nothing_is_made_below_a_mount_point_where_nothing_is_mounted) {
    const mounted m;
    run_directory run = m.open();
    m.take_away(1);
    const pack_file pack = need(run.create_pack(id, 1, nodes, 4096));
    cr_assert(pack.detour().has_value());
    cr_assert(pack.detour()->context.find(m.mounts[1] + "': nothing is mounted there") != std::string::npos, "%s",
              pack.detour()->context.c_str());
    cr_assert(pack.path().starts_with(m.mounts[0]), "%s", pack.path().c_str());
    m.take_away(0);
    pack_file second = need(run.create_pack(id, 0, nodes, 4096));
    cr_assert(second.path().starts_with(run.path()), "%s", second.path().c_str());
    need(second.seal());
    cr_assert(fs::is_regular_file(fs::symlink_status(generation_path(run, id) + "/" + pack_name(0, nodes))));
    cr_assert(is_empty(m.mounts[0]) && is_empty(m.mounts[1]));
    fs::remove(m.mounts[1]);  // not even a directory
    cr_assert(need(run.create_pack(id, 3, nodes, 4096)).detour()->what == code::io);
}

Test(mounts, a_mount_that_is_away_is_an_error_and_no_damage) {
    const mounted m;
    run_directory run = m.open();
    for (const uint64_t step : {1, 2}) write_generation(run, {step, 1}, nodes);
    m.take_away(1);
    const run_directory reader = need(run_directory::open(m.at.path() + "/runs", "run", false));
    uint64_t size_bytes = 0;
    for (const run_directory* each : std::initializer_list<const run_directory*>{&run, &reader}) {
        const std::string words = m.mounts[1] + "' is not mounted on node '";
        refused(each->choose(nullptr), code::io, words.c_str());
        refused(each->choose_step(2), code::io, words.c_str());
        refused(each->list(), code::io, words.c_str());
        refused(each->open_pack({2, 1}, 1, nodes, &size_bytes), code::io, words.c_str());
        refused(each->find_pack({2, 1}, 1, nodes), code::io, words.c_str());
        refused(each->confirm(manifest_of({2, 1}, nodes)), code::io, words.c_str());
        need(each->open_pack({2, 1}, 0, nodes, &size_bytes));
    }
    // Retirement can tell of none that it is whole: so all stay.
    refused(run.retire(1, {2, 1}), code::io, m.mounts[1].c_str());
    cr_assert(exists(generation_path(run, {1, 1})) && exists(generation_path(run, {2, 1})));
    cr_assert_eq(count_below(run.path(), "damaged.json"), 0);
    cr_assert(is_empty(m.mounts[1]));
    m.bring(1);
    const generation chosen = need(run.choose(nullptr));
    cr_assert(chosen.id == id_of(2, 1) && chosen.size_bytes == nodes * 4096);
    cr_assert_eq(need(run.retire(1, {2, 1})), 1);
}

// In a user namespace the run's directory is the user's as ever, and the link's text has the number of outside.
Test(mounts, a_link_of_another_users_number_is_an_error_and_no_damage) {
    const mounted m;
    run_directory run = m.open();
    for (const uint64_t step : {1, 2}) write_generation(run, {step, 1}, nodes);
    const std::string link = generation_path(run, {2, 1}) + "/" + pack_name(0, nodes);
    std::string text = std::filesystem::read_symlink(link);
    const std::string own = "/" + owner_directory_name(::geteuid()) + "/";
    text.replace(text.find(own), own.size(), "/varde-4711/");
    std::filesystem::remove(link);
    std::filesystem::create_symlink(text, link);
    refused(run.choose(nullptr), code::io, "is of user 4711");
    uint64_t size_bytes = 0;
    refused(run.open_pack({2, 1}, 0, nodes, &size_bytes), code::io, "is of user 4711");
    cr_assert_eq(count_below(run.path(), "damaged.json"), 0);
}

Test(mounts, a_pack_that_is_gone_from_a_mount_that_is_there_is_damage) {
    const mounted m;
    run_directory run = m.open();
    for (const uint64_t step : {1, 2, 3}) write_generation(run, {step, 1}, nodes);
    fs::remove(mounted::true_path(run, {3, 1}, 1, nodes));
    fs::remove_all(m.root(run, 1) + "/" + generation_name({2, 1}));
    cr_assert(need(run.choose(nullptr)).id == id_of(1, 1));
    for (const generation& each : need(run.list()))
        cr_assert((each.status == generation_status::damaged) == (each.id.step > 1), "%s", each.reason.c_str());
    uint64_t size_bytes = 0;
    refused(run.open_pack({3, 1}, 1, nodes, &size_bytes), code::not_found);
    refused(run.confirm(manifest_of({3, 1}, nodes)), code::io, "same file system on all nodes");
    cr_assert_eq(need(run.retire(1, {3, 1})), 0);
}

Test(mounts, two_runs_of_one_name_never_meet) {
    const mounted m;
    run_directory first = m.open("runs/a"), second = m.open("runs/b");
    write_pack(first, id, 0, 'a');
    write_pack(second, id, 0, 'b');
    cr_assert(m.root(first, 0) != m.root(second, 0));
    for (const uint64_t step : {201, 202}) write_generation(first, {step, 1}, nodes);
    need(first.retire(1, {202, 1}));
    cr_assert_eq(first_byte(second, id, 0), 'b');
}

Test(mounts, a_copy_of_a_run_reads_the_packs_and_leaves_them_alone) {
    const mounted m;
    run_directory run = m.open();
    for (const uint64_t step : {1, 2}) write_generation(run, {step, 1}, nodes);
    fs::copy(m.at.path() + "/runs", m.at.path() + "/copy",
             fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    run_directory copy = m.open("copy");
    cr_assert(need(copy.choose(nullptr)).id == id_of(2, 1));
    for (const uint64_t step : {3, 4}) write_generation(copy, {step, 1}, nodes);
    cr_assert(m.root(copy, 0) != m.root(run, 0));
    std::vector<std::string> left;
    cr_assert_eq(need(copy.retire(1, {4, 1}, &left)), 3);
    cr_assert(left.size() == 4 && left[0].find("is a copy") != std::string::npos, "%zu", left.size());
    cr_assert(need(run.choose(nullptr)).id == id_of(2, 1), "the original has all it had");
    cr_assert_eq(count_below(m.root(copy, 0), "node-"), nodes / 2);

    // The original moves away, and the copy takes its path: still it is not the original.
    fs::rename(m.at.path() + "/runs", m.at.path() + "/kept");
    fs::copy(m.at.path() + "/kept", m.at.path() + "/runs",
             fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    run_directory again = m.open();
    write_generation(again, {5, 1}, nodes);
    cr_assert_eq(need(again.retire(1, {5, 1}, &left)), 2);
    cr_assert(need(need(run_directory::open(m.at.path() + "/kept", "run", false)).choose(nullptr)).id == id_of(2, 1));
}

Test(mounts, a_full_mount_is_gone_around) {
    const mounted m("size=1m");
    run_directory run = m.open();
    write_file(m.mounts[1] + "/filler", std::string(900 << 10, 'x'));
    pack_file pack = need(run.create_pack(id, 1, nodes, 512 << 10));
    cr_assert(pack.detour() && pack.detour()->what == code::no_space, "%s", pack.detour()->context.c_str());
    cr_assert(pack.detour()->context.find(m.mounts[1]) != std::string::npos);
    cr_assert(pack.path().starts_with(m.mounts[0]), "%s", pack.path().c_str());
    cr_assert_eq(count_below(m.mounts[1], "node-"), 0);
    need(pack.seal());
    uint64_t size_bytes = 0;
    need(run.open_pack(id, 1, nodes, &size_bytes));
}

Test(mounts, where_all_is_full_the_pack_is_given_up_and_nothing_is_left) {
    const mounted m("size=1m");
    cr_assert_eq(::mount("none", (m.at.path() + "/runs").c_str(), "tmpfs", 0, "size=1m"), 0);
    {
        run_directory run = m.open();
        const result<pack_file> pack = run.create_pack(id, 1, nodes, 8 << 20);
        refused(pack, code::no_space, "before that");
        refused(pack, code::no_space, m.mounts[1].c_str());
        cr_assert_eq(count_below(m.at.path(), "node-"), 0);
        cr_assert(is_empty(m.root(run, 0)) == false && !exists(m.root(run, 0) + "/" + generation_name(id)));
        refused(run.choose(nullptr), code::not_found);
    }
    ::umount2((m.at.path() + "/runs").c_str(), MNT_DETACH);
}

Test(mounts, each_attempt_begins_with_the_next_place) {
    const mounted m;
    run_directory run = m.open();
    const std::string expected[] = {m.mounts[1], m.mounts[0], run.path(), m.mounts[1]};
    for (uint32_t attempt = 0; attempt < 4; ++attempt) {
        const pack_file pack = need(run.create_pack(id, 1, nodes, 4096, attempt));
        cr_assert(pack.path().starts_with(expected[attempt]) && !pack.detour(), "%u: %s", attempt, pack.path().c_str());
    }
    cr_assert_eq(count_below(m.at.path(), "node-"), 0);
}

Test(mounts, what_others_have_put_in_the_way_is_not_used) {
    const mounted m;
    run_directory run = m.open();
    const std::string mine = owner_directory_name(::geteuid());
    const std::string taken = m.mounts[0] + "/" + mine;
    const auto detour = [&]() {
        const pack_file pack = need(run.create_pack(id, 0, nodes, 4096));
        cr_assert(pack.path().starts_with(m.mounts[1]), "%s", pack.path().c_str());
        return pack.detour()->context;
    };
    fs::create_directory(taken);
    cr_assert_eq(::chmod(taken.c_str(), 0700) | ::chown(taken.c_str(), 12345, 12345), 0);
    cr_assert(detour().find("belongs to user id 12345") != std::string::npos);
    cr_assert_eq(::chown(taken.c_str(), ::geteuid(), ::getegid()) | ::chmod(taken.c_str(), 0770), 0);
    cr_assert(detour().find("mode is not 0700") != std::string::npos);
    fs::remove(taken);
    fs::create_directory(m.at.path() + "/trap");
    fs::create_symlink(m.at.path() + "/trap", taken);
    cr_assert(detour().find(taken) != std::string::npos);
    cr_assert(is_empty(m.at.path() + "/trap") && is_link(taken));
}

Test(mounts, a_root_that_is_no_longer_the_owners_is_not_read) {
    const mounted m;
    run_directory run = m.open();
    write_generation(run, id, nodes);
    cr_assert_eq(::chown(fs::path(m.root(run, 1)).parent_path().c_str(), 12345, 12345), 0);
    refused(run.choose(nullptr), code::io, "belongs to user id 12345");
}

Test(mounts, a_link_to_anywhere_else_is_not_followed) {
    const mounted m;
    run_directory run = m.open();
    for (const uint64_t step : {1, 2}) write_generation(run, {step, 1}, nodes);
    const std::string name = generation_path(run, {2, 1}) + "/" + pack_name(1, nodes);
    const std::string own = mounted::true_path(run, {2, 1}, 1, nodes);
    write_file(m.at.path() + "/outside", std::string(4096, 'x'));
    for (const std::string& target : {m.at.path() + "/outside", mounted::true_path(run, {1, 1}, 1, nodes),
                                      mounted::true_path(run, {2, 1}, 3, nodes), std::string("elsewhere")}) {
        fs::remove(name);
        fs::create_symlink(target, name);
        uint64_t size_bytes = 0;
        refused(run.open_pack({2, 1}, 1, nodes, &size_bytes), code::invalid, "which is no place of this pack");
        refused(run.find_pack({2, 1}, 1, nodes), code::invalid, "which is no place of this pack");
        cr_assert(need(run.choose(nullptr)).id == id_of(1, 1));
    }
    // A link below the mount is none of ours either.
    fs::remove(name);
    fs::create_symlink(own, name);
    fs::rename(own, own + ".moved");
    fs::create_symlink(own + ".moved", own);
    uint64_t size_bytes = 0;
    cr_assert(!run.open_pack({2, 1}, 1, nodes, &size_bytes));
    cr_assert(need(run.choose(nullptr)).id == id_of(1, 1));
}

// A person renames a generation and deletes the roster: the same names come again.
Test(mounts, what_a_renamed_generation_names_is_never_written_over) {
    const mounted m;
    run_directory run = m.open();
    for (uint32_t node = 0; node < nodes; ++node) write_pack(run, id, node, 'a');
    fs::rename(generation_path(run, id), run.path() + "/best");
    for (uint32_t node = 0; node < nodes; ++node) write_pack(run, id, node, 'b');
    write_generation(run, {200, 1}, nodes);
    cr_assert_eq(need(run.retire(1, {200, 1})), 1);
    for (uint32_t node = 0; node < nodes; ++node)
        cr_assert(read_file(run.path() + "/best/" + pack_name(node, nodes)) == std::string(4096, 'a'));
}

Test(mounts, an_abandoned_pack_leaves_nothing) {
    const mounted m;
    run_directory run = m.open();
    { const pack_file pack = need(run.create_pack(id, 1, nodes, 4096)); }
    cr_assert_eq(count_below(m.at.path(), "node-"), 0);
    cr_assert(!exists(m.root(run, 1) + "/" + generation_name(id)));
    write_pack(run, id, 0, 'x');
    { const pack_file pack = need(run.create_pack(id, 2, nodes, 4096)); }
    cr_assert_eq(count_below(run.path(), "node-"), 1);
    cr_assert_eq(count_below(m.mounts[0], "node-"), 1, "the other pack of that mount");
}

Test(mounts, a_writer_that_was_replaced_can_neither_seal_nor_remove) {
    const mounted m;
    run_directory run = m.open();
    pack_file old = need(run.create_pack(id, 1, nodes, 4096));
    pack_file young = need(run.create_pack(id, 1, nodes, 4096));
    refused(old.seal(), code::fenced);
    need(young.seal());
    uint64_t size_bytes = 0;
    need(run.open_pack(id, 1, nodes, &size_bytes));
    refused(run.create_pack(id, 1, nodes, 4096), code::busy, "sealed already");
}

Test(mounts, what_a_dead_agent_left_is_replaced) {
    const mounted m;
    run_directory run = m.open();
    write_pack(run, id, 1, 'x');
    const std::string name = generation_path(run, id) + "/" + pack_name(1, nodes);
    const std::string there = mounted::true_path(run, id, 1, nodes);
    // It died before the link had its final name: sealed there, and not here.
    fs::rename(name, name + ".partial");
    refused(run.choose(nullptr), code::not_found);
    write_pack(run, id, 1, 'y');
    cr_assert_eq(first_byte(run, id, 1), 'y');
    // It died in the middle, and the mount is away for its successor: found again by the link that stays.
    fs::rename(name, name + ".partial");
    fs::rename(there, there + ".partial");
    m.take_away(1);
    write_pack(run, id, 1, 'z');
    cr_assert_eq(first_byte(run, id, 1), 'z');
    cr_assert_eq(count_below(run.path(), ".left-"), 1);
    m.bring(1);
    cr_assert(exists(there + ".partial"));
    for (const uint32_t node : {0, 2, 3}) write_pack(run, id, node, 'z');
    write_generation(run, {200, 1}, nodes);
    cr_assert_eq(need(run.retire(1, {200, 1})), 1);
    cr_assert(!exists(there + ".partial") && count_below(run.path(), ".left-") == 0);
    cr_assert(need(run.choose(nullptr)).id == id_of(200, 1));
}
