// The roster: slots that several processes read and write, and the claims of incarnations.
#include "store_support.h"

#include "base/clock.h"
#include "base/limits.h"

#include <set>
#include <thread>

using namespace store_test;

namespace {

slot slot_of(uint32_t index, uint32_t count, uint64_t sequence) {
    slot one;
    one.node_index = index;
    one.node_count = count;
    one.sequence = sequence;
    one.host = "host" + std::to_string(index);
    return one;
}

size_t open_descriptors() {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
    return count;
}

// The exchange of two nodes, whatever the file system.
int exchange_slots(const std::string& directory) {
    result<run_directory> run = run_directory::open(directory, "run", true);
    if (!run) return 1;
    roster here = need(run->open_roster(true));
    roster there = need(run->open_roster(false));
    for (uint64_t sequence = 1; sequence <= 20; ++sequence) {
        if (!here.write(slot_of(1, 4, sequence))) return 2;
        const result<slot> read = there.read(1);
        if (!read || read->sequence != sequence) return 3;
        const std::vector<result<slot>> all = there.read_all(4);
        if (!all[1] || all[1]->sequence != sequence || all[0] || all[0].error().what != code::not_found) return 4;
    }
    return 0;
}

}  // namespace

Test(roster, another_process_sees_each_write) {
    temporary_directory at;
    cr_assert_eq(exchange_slots(at.path()), 0);
}

Test(roster, works_where_o_direct_is_refused) {
    temporary_directory at;
    const int status = in_child([&]() {
        if (!mount_own("ramfs", at.path(), nullptr)) return 77;
        bool direct = true;
        const int fd = ::open((at.path() + "/probe").c_str(), O_CREAT | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
        direct = fd >= 0;
        if (direct) return 78;  // then this test proves nothing
        return exchange_slots(at.path());
    });
    if (status == 77) cr_skip_test("no mount namespace of our own here");
    cr_assert_eq(status, 0, "%d", status);
}

Test(roster, slot_is_private_and_one_page) {
    temporary_directory at;
    run_directory run = open_run(at);
    roster here = need(run.open_roster(true));
    need(here.write(slot_of(0, 1, 1)));
    struct stat info {};
    cr_assert_eq(::stat((run.path() + "/roster/00000").c_str(), &info), 0);
    cr_assert_eq(info.st_size, 4096);
    cr_assert_eq(info.st_mode & 07777, 0600u);
}

Test(roster, missing_and_just_created_slots_are_not_found) {
    temporary_directory at;
    run_directory run = open_run(at);
    roster here = need(run.open_roster(true));
    refused(here.read(0), code::not_found);
    write_file(run.path() + "/roster/00000", std::string(100, 'x'));
    refused(here.read(0), code::not_found, "100 bytes");
}

Test(roster, torn_slot_is_read_again) {
    temporary_directory at;
    run_directory run = open_run(at);
    roster here = need(run.open_roster(true));
    need(here.write(slot_of(0, 2, 1)));
    const std::string path = run.path() + "/roster/00000";
    const std::string whole = read_file(path);
    std::string torn = whole;
    torn[600] ^= 1;
    write_file(path, torn);
    std::thread writer([&]() {
        std::this_thread::sleep_for(std::chrono::milliseconds(4));
        const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
        cr_assert_eq(::pwrite(fd, whole.data(), whole.size(), 0), 4096);
        ::close(fd);
    });
    const result<slot> read = here.read(0);
    writer.join();
    cr_assert_eq(need(read).sequence, 1);
}

Test(roster, slot_that_stays_torn_is_damaged) {
    temporary_directory at;
    run_directory run = open_run(at);
    roster here = need(run.open_roster(true));
    write_file(run.path() + "/roster/00000", std::string(4096, 'x'));
    refused(here.read(0), code::damaged, "roster/00000");
}

Test(roster, slot_under_another_nodes_name_is_damaged) {
    temporary_directory at;
    run_directory run = open_run(at);
    roster here = need(run.open_roster(true));
    need(here.write(slot_of(0, 2, 1)));
    std::filesystem::copy_file(run.path() + "/roster/00000", run.path() + "/roster/00001");
    refused(here.read(1), code::damaged, "slot of node 0");
}

Test(roster, deleted_slot_is_made_again) {
    temporary_directory at;
    run_directory run = open_run(at);
    roster here = need(run.open_roster(true)), there = need(run.open_roster(true));
    need(here.write(slot_of(0, 2, 1)));
    need(there.read(0));
    std::filesystem::remove(run.path() + "/roster/00000");
    refused(there.read(0), code::not_found);
    need(here.write(slot_of(0, 2, 2)));
    cr_assert_eq(need(there.read(0)).sequence, 2);
}

// Two starts whose identities differ only at their ends must not pass for one.
Test(roster, an_identity_is_kept_whole_or_refused) {
    temporary_directory at;
    run_directory run = open_run(at);
    roster here = need(run.open_roster(true));
    slot mine = slot_of(0, 1, 1);
    mine.launch = std::string(limits::launch_bytes_max, 'x');
    need(here.write(mine));
    cr_assert(need(here.read(0)).launch == mine.launch);
    mine.launch += 'y';
    refused(here.write(mine), code::invalid, "128 bytes");
}

Test(roster, link_in_place_of_a_slot_is_refused) {
    temporary_directory at;
    run_directory run = open_run(at);
    roster here = need(run.open_roster(true));
    write_file(at.path() + "/elsewhere", "precious");
    std::filesystem::create_symlink(at.path() + "/elsewhere", run.path() + "/roster/00000");
    cr_assert(!here.write(slot_of(0, 1, 1)).has_value());
    cr_assert(!here.read(0).has_value());
    cr_assert(read_file(at.path() + "/elsewhere") == "precious");
}

Test(roster, two_thousand_slots_are_read_quickly_and_closed_again) {
    temporary_directory at;
    run_directory run = open_run(at);
    roster here = need(run.open_roster(true));
    constexpr uint32_t count = 2048;
    for (uint32_t i = 0; i < count; ++i) {
        std::array<std::byte, slot_bytes> page{};
        encode_slot(slot_of(i, count, i), page);
        char name[16];
        ::snprintf(name, sizeof name, "/%05u", i);
        write_file(run.path() + "/roster" + name, std::string(reinterpret_cast<const char*>(page.data()), page.size()));
    }
    const size_t before = open_descriptors();
    const uint64_t start = mono_ns();
    const std::vector<result<slot>> all = here.read_all(count);
    const uint64_t took_ms = (mono_ns() - start) / ns_per_ms;
    cr_assert_eq(all.size(), count);
    for (uint32_t i = 0; i < count; ++i)
        cr_assert(all[i] && all[i]->node_index == i && all[i]->sequence == i, "slot %u", i);
    cr_assert_eq(open_descriptors(), before);
    cr_assert_lt(took_ms,
                 3000);  // a second's work on a healthy disk is some tens of ms; the bound only catches the absurd
}

Test(claim, numbers_grow_and_content_is_kept) {
    temporary_directory at;
    run_directory run = open_run(at);
    roster here = need(run.open_roster(true));
    cr_assert_eq(need(here.newest_incarnation(0)), 0);
    cr_assert_eq(need(here.claim_incarnation("{\"job\": 7}")), 1);
    cr_assert_eq(need(here.claim_incarnation("{\"job\": 8}")), 2);
    cr_assert(read_file(run.path() + "/roster/incarnation-00002") == "{\"job\": 8}");
    cr_assert_eq(need(here.newest_incarnation(0)), 2);
    cr_assert_eq(need(here.newest_incarnation(1)), 2);
    cr_assert_eq(need(here.newest_incarnation(2)), 2);
}

Test(claim, only_the_newest_sixteen_stay) {
    temporary_directory at;
    run_directory run = open_run(at);
    roster here = need(run.open_roster(true));
    for (uint64_t i = 1; i <= 40; ++i) cr_assert_eq(need(here.claim_incarnation("x")), i);
    cr_assert(!exists(run.path() + "/roster/incarnation-00024"));
    cr_assert(exists(run.path() + "/roster/incarnation-00025"));
    cr_assert_eq(need(here.newest_incarnation(3)), 40, "one that slept through many restarts finds the newest");
}

Test(claim, strange_names_do_not_count) {
    temporary_directory at;
    run_directory run = open_run(at);
    roster here = need(run.open_roster(true));
    for (const char* name : {"incarnation-99999999999999999999", "incarnation-18446744073709551615", "incarnation-7",
                             "incarnation-00009.bak", "incarnation-", "incarnation-00000"})
        write_file(run.path() + "/roster/" + name, "x");
    cr_assert_eq(need(here.claim_incarnation("x")), 1);
}

Test(claim, racing_processes_get_different_numbers_and_whole_files) {
    temporary_directory at;
    run_directory run = open_run(at);
    need(run.open_roster(true));
    constexpr unsigned racers = 8, claims_each = 40;  // many more than are kept
    const std::string content(5000, 'c');
    std::vector<pid_t> children;
    for (unsigned i = 0; i < racers; ++i) {
        children.push_back(::fork());
        if (children.back() != 0) continue;
        int wrong = 0;
        roster mine = need(open_run(at).open_roster(false));
        for (unsigned k = 0; k < claims_each; ++k) {
            const result<uint64_t> number = mine.claim_incarnation(content);
            char name[32];
            ::snprintf(name, sizeof name, "/roster/incarnation-%05u", number ? static_cast<unsigned>(*number) : 0);
            write_file(at.path() + "/won-" + std::to_string(::getpid()) + "-" + std::to_string(k), name);
            if (!number) wrong = 1;
        }
        ::_exit(wrong);
    }
    // Meanwhile: no claim is ever seen half-written.
    for (int i = 0; i < 200; ++i) {
        for (const auto& entry : std::filesystem::directory_iterator(run.path() + "/roster")) {
            if (!entry.path().filename().string().starts_with("incarnation-")) continue;
            const std::string text = read_file(entry.path());
            cr_assert(text.size() == content.size() || !exists(entry.path()), "%zu bytes", text.size());
        }
    }
    for (const pid_t child : children) {
        int status = 1;
        cr_assert_eq(::waitpid(child, &status, 0), child);
        cr_assert_eq(status, 0);
    }
    std::set<std::string> numbers;
    for (const auto& entry : std::filesystem::directory_iterator(at.path())) {
        if (entry.path().filename().string().starts_with("won-")) numbers.insert(read_file(entry.path()));
    }
    cr_assert_eq(numbers.size(), racers * claims_each);
}
