// Packs spread over several mounts: where they go, that readers find them, and that nothing of them stays.
#include "store_support.h"

#include "store/store.h"

#include <filesystem>
#include <fstream>

using namespace varde;
using namespace varde::store;
using namespace store_test;
namespace fs = std::filesystem;

namespace {

constexpr uint32_t node_count = 4;

// Two "mounts", a run below the first, and its packs, each of 4096 bytes that are the node's number.
struct spread_run {
    temporary_directory at;
    std::vector<std::string> mounts{at.path() + "/flash0", at.path() + "/flash1"};
    run_directory run = open();

    run_directory open() {
        for (const auto& mount : mounts) fs::create_directories(mount);
        auto opened = need(run_directory::open(mounts[0] + "/anna/ckpt", "run", true));
        opened.spread_over(mounts);
        return opened;
    }
    std::string place(uint32_t node, generation_id id) const {
        return mounts[node % 2] + "/anna/ckpt/run/" + generation_name(id) + "/" + pack_name(node, node_count);
    }
    void write(generation_id id, uint32_t node) {
        auto pack = need(run.create_pack(id, node, node_count, 4096));
        cr_assert(!pack.detour());
        need(pack.use_buffered());
        const std::string bytes(4096, static_cast<char>('0' + node));
        cr_assert_eq(::pwrite(pack.fd(), bytes.data(), bytes.size(), 0), 4096);
        need(pack.seal());
    }
    void write_all(generation_id id) {
        for (uint32_t node = 0; node < node_count; node++) write(id, node);
    }
};

}  // namespace

Test(spread, packs_lie_on_their_mounts_and_are_found_by_any_reader) {
    spread_run s;
    const generation_id id{100, 1};
    s.write_all(id);
    const auto reader = need(run_directory::open(s.mounts[0] + "/anna/ckpt", "run", false));  // knows no mounts
    for (uint32_t node = 0; node < node_count; node++) {
        const std::string path = s.place(node, id);
        cr_assert(fs::is_regular_file(fs::symlink_status(path)), "%s", path.c_str());
        uint64_t size_bytes = 0;
        const auto fd = need(reader.open_pack(id, node, node_count, &size_bytes));
        cr_assert_eq(size_bytes, 4096);
        cr_assert_eq(read_file(path)[17], static_cast<char>('0' + node));
    }
    const auto chosen = need(reader.choose(nullptr));
    cr_assert(chosen.id == id && chosen.size_bytes == 4 * 4096);
}

Test(spread, a_run_that_is_below_no_mount_stays_whole) {
    const temporary_directory at;
    auto run = need(run_directory::open(at.path() + "/other", "run", true));
    run.spread_over({at.path() + "/flash0", at.path() + "/flash1", at.path() + "/oth"});
    auto pack = need(run.create_pack({1, 1}, 1, 2, 4096));
    cr_assert(pack.path().starts_with(at.path() + "/other/run/"), "%s", pack.path().c_str());
}

Test(spread, a_mount_that_cannot_be_used_is_named_and_gone_around) {
    spread_run s;
    fs::remove_all(s.mounts[1]);
    std::ofstream(s.mounts[1]) << "a file";
    auto pack = need(s.run.create_pack({5, 1}, 1, node_count, 4096));
    cr_assert(pack.detour() && pack.detour()->context.find(s.mounts[1]) != std::string::npos);
    cr_assert(pack.path().starts_with(s.mounts[0]), "%s", pack.path().c_str());
    need(pack.seal());
    cr_assert(fs::is_regular_file(
        fs::symlink_status(s.mounts[0] + "/anna/ckpt/run/step-000000000005.r1/" + pack_name(1, node_count))));
}

Test(spread, a_pack_without_its_link_is_not_sealed_and_is_written_anew) {
    spread_run s;
    const generation_id id{7, 1};
    s.write_all(id);
    fs::remove(s.mounts[0] + "/anna/ckpt/run/" + generation_name(id) + "/" + pack_name(3, node_count));
    refused(s.run.choose(nullptr), code::not_found);
    s.write(id, 3);
    cr_assert(need(s.run.choose(nullptr)).id == id);
}

Test(spread, a_pack_whose_mount_is_away_is_no_pack) {
    spread_run s;
    s.write_all({1, 1});
    fs::rename(s.mounts[1], s.at.path() + "/away");
    refused(s.run.choose(nullptr), code::damaged);  // an error, never a start from zero
    fs::rename(s.at.path() + "/away", s.mounts[1]);
    cr_assert(need(s.run.choose(nullptr)).id == (generation_id{1, 1}));
}

Test(spread, what_is_retired_is_gone_from_all_mounts) {
    spread_run s;
    for (uint64_t step = 1; step <= 3; step++) s.write_all({step, 1});
    cr_assert_eq(need(s.run.retire(1, {3, 1})), 2);
    for (const uint64_t step : {uint64_t{1}, uint64_t{2}}) {
        for (const auto& mount : s.mounts)
            cr_assert(!fs::exists(mount + "/anna/ckpt/run/" + generation_name({step, 1})));
    }
    cr_assert(need(s.run.choose(nullptr)).id == (generation_id{3, 1}));
}

Test(spread, a_retirement_that_was_interrupted_is_finished) {
    spread_run s;
    for (uint64_t step = 1; step <= 2; step++) s.write_all({step, 1});
    const std::string run = s.mounts[0] + "/anna/ckpt/run/";
    fs::rename(run + generation_name({1, 1}), run + ".retired-" + generation_name({1, 1}));
    need(s.run.retire(2, {2, 1}));
    cr_assert(!fs::exists(run + ".retired-" + generation_name({1, 1})));
    cr_assert(!fs::exists(s.mounts[1] + "/anna/ckpt/run/" + generation_name({1, 1})));
    cr_assert(fs::exists(s.place(1, {2, 1})));
}
