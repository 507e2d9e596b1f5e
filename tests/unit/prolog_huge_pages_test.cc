// Huge pages that the prolog adds to the kernel's pools and the epilog takes away again: exactly those, whatever
// happened in between.
#include "prolog/huge_pages.h"
#include "huge_pages.h"
#include "prolog_setup_support.h"

#include <sys/file.h>

using namespace setup_test;

namespace {

constexpr uint64_t page = 2 << 20;
constexpr uint64_t gib = 1ULL << 30;

// Pools of a /sys of the test's own, below the test's folder.
std::string pool_path(uint32_t node, const std::string& file) {
    return folder + "/sys/devices/system/node/node" + std::to_string(node) + "/hugepages/hugepages-2048kB/" + file;
}
uint64_t pages_of(uint32_t node) { return std::stoull(read_text(pool_path(node, "nr_hugepages"))); }
void make_pool(uint32_t node, uint64_t pages, uint64_t free, uint64_t surplus = 0) {
    std::filesystem::create_directories(std::filesystem::path(pool_path(node, "x")).parent_path());
    write_text(pool_path(node, "nr_hugepages"), std::to_string(pages) + "\n", 0644);
    write_text(pool_path(node, "free_hugepages"), std::to_string(free) + "\n", 0644);
    write_text(pool_path(node, "surplus_hugepages"), std::to_string(surplus) + "\n", 0644);
}
void promise(uint64_t pages) {
    const std::string at = folder + "/sys/kernel/mm/hugepages/hugepages-2048kB";
    std::filesystem::create_directories(at);
    write_text(at + "/resv_hugepages", std::to_string(pages) + "\n", 0644);
}

job_directory directory_of(uint32_t job) {
    auto made = job_directory::create(where.run_directory, job);
    cr_assert(made.has_value(), "%s", made ? "" : made.error().context.c_str());
    return std::move(*made);
}
std::string record_of(uint32_t job) { return where.run_directory + "/" + std::to_string(job) + "/" + huge_pages_name; }

void take(const job_directory& job, std::vector<page_share> shares) {
    const auto done = take_huge_pages(job, page, shares, 1000, folder);
    cr_assert(done.has_value(), "%s", done ? "" : done.error().context.c_str());
}
void give_back(const job_directory& job) {
    const auto done = give_back_huge_pages(job, folder);
    cr_assert(done.has_value(), "%s", done ? "" : done.error().context.c_str());
}

}  // namespace

TestSuite(huge_pages, .init = setup, .fini = teardown, .timeout = 60);

Test(huge_pages, only_what_the_pools_lack_is_added_and_taken_away) {
    cr_assert_eq(::geteuid(), 0, "this test needs root");
    make_pool(0, 100, 100);
    make_pool(1, 7, 0);
    const auto job = directory_of(job_id);
    take(job, {{0, 64 * page}, {1, 3 * page + 1}});
    cr_assert_eq(pages_of(0), 100, "it had enough");
    cr_assert_eq(pages_of(1), 7 + 4);
    give_back(job);
    cr_assert(pages_of(0) == 100 && pages_of(1) == 7);
    cr_assert(!std::filesystem::exists(record_of(job_id)));
    give_back(job);
    cr_assert(pages_of(0) == 100 && pages_of(1) == 7, "twice is no harm");
}

Test(huge_pages, pages_that_others_were_promised_are_not_counted) {
    cr_assert_eq(::geteuid(), 0, "this test needs root");
    make_pool(0, 100, 100);
    make_pool(1, 100, 100);
    promise(150);
    const auto job = directory_of(job_id);
    take(job, {{0, 10 * page}, {1, 60 * page}});
    cr_assert(pages_of(0) == 110 && pages_of(1) == 110);
    give_back(job);
    cr_assert(pages_of(0) == 100 && pages_of(1) == 100);
}

Test(huge_pages, large_shares_are_added_in_steps) {
    cr_assert_eq(::geteuid(), 0, "this test needs root");
    make_pool(0, 3, 1);
    const auto job = directory_of(job_id);
    take(job, {{0, 16 * gib}});
    cr_assert_eq(pages_of(0), 3 + 16 * gib / page - 1);
    give_back(job);
    cr_assert_eq(pages_of(0), 3);
}

// A pool that gives three pages fewer than it is asked for.
Test(huge_pages, where_the_kernel_has_too_few_nothing_stays) {
    cr_assert_eq(::geteuid(), 0, "this test needs root");
    make_pool(0, 10, 0);
    make_pool(1, 5, 0, 3);
    const auto job = directory_of(job_id);
    const auto done = take_huge_pages(job, page, std::vector<page_share>{{0, 8 * page}, {1, 2 * gib}}, 1000, folder);
    cr_assert(!done && done.error().what == code::no_memory);
    for (const char* word : {"2 GiB", "NUMA node 1", "ordinary pages are used", "hugepages="})
        cr_assert(done.error().context.find(word) != std::string::npos, "%s", done.error().context.c_str());
    cr_assert_eq(pages_of(0), 10);
    cr_assert(!std::filesystem::exists(record_of(job_id)));
}

Test(huge_pages, a_machine_without_such_pages_says_so) {
    cr_assert_eq(::geteuid(), 0, "this test needs root");
    const auto job = directory_of(job_id);
    const auto done = take_huge_pages(job, page, std::vector<page_share>{{0, page}}, 1000, folder);
    cr_assert(!done && done.error().context.find("hugepages-2048kB") != std::string::npos);
    give_back(job);
}

// The record of a prolog or epilog that was killed, and how far the pool had come.
Test(huge_pages, whoever_is_killed_in_between_leaves_nothing_behind) {
    cr_assert_eq(::geteuid(), 0, "this test needs root");
    for (uint64_t pages = 20; pages <= 30; pages++) {
        make_pool(0, pages, 0);
        const auto job = directory_of(job_id);
        const taken_pages record{page, false, boot_id(), {{0, 20, 30, 10}}};
        write_text(record_of(job_id), encode_taken(record), 0644);
        give_back(job);
        cr_assert_eq(pages_of(0), 20, "from %lu", pages);
    }
    // An epilog that was killed after it had taken the pages away.
    make_pool(0, 20, 0);
    const auto job = directory_of(job_id);
    take(job, {{0, 10 * page}});
    std::filesystem::copy(record_of(job_id), folder + "/record");
    give_back(job);
    const taken_pages undoing{page, false, boot_id(), {{0, 20, 30, 10}}};  // what it writes before it does
    write_text(record_of(job_id), encode_taken(undoing), 0644);
    give_back(job);
    cr_assert_eq(pages_of(0), 20);
}

// Jobs come and go, and the administrator changes the pool meanwhile.
Test(huge_pages, what_is_left_at_the_end_is_the_administrators) {
    cr_assert_eq(::geteuid(), 0, "this test needs root");
    make_pool(0, 50, 0);
    std::vector<job_directory> jobs;
    for (uint32_t i = 0; i < 4; i++) jobs.push_back(directory_of(job_id + i));
    take(jobs[0], {{0, 5 * page}});
    take(jobs[1], {{0, 7 * page}});
    give_back(jobs[0]);
    write_text(pool_path(0, "nr_hugepages"), std::to_string(pages_of(0) + 100), 0644);
    take(jobs[2], {{0, 11 * page}});
    give_back(jobs[1]);
    take(jobs[3], {{0, 13 * page}});
    give_back(jobs[3]);
    give_back(jobs[2]);
    cr_assert_eq(pages_of(0), 150);
    for (auto& job : jobs) cr_assert(job.remove().has_value());
}

Test(huge_pages, a_lock_that_is_held_for_ever_is_not_waited_for) {
    cr_assert_eq(::geteuid(), 0, "this test needs root");
    make_pool(0, 1, 0);
    const auto job = directory_of(job_id);
    const unique_fd held(
        ::open((where.run_directory + "/huge_pages.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    cr_assert_eq(::flock(held.get(), LOCK_EX), 0);
    const auto done = take_huge_pages(job, page, std::vector<page_share>{{0, page}}, 1000, folder);
    cr_assert(!done && done.error().what == code::timeout);
    cr_assert_eq(pages_of(0), 1);
}

// What anybody can open anybody can lock.
Test(huge_pages, a_users_lock_holds_nothing_up) {
    cr_assert_eq(::geteuid(), 0, "this test needs root");
    make_pool(0, 1, 0);
    const auto job = directory_of(job_id);
    const unique_fd runs(::open(where.run_directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const unique_fd jobs(::open((where.run_directory + "/" + std::to_string(job_id)).c_str(), O_RDONLY | O_CLOEXEC));
    cr_assert(::flock(runs.get(), LOCK_EX) == 0 && ::flock(jobs.get(), LOCK_EX) == 0);
    take(job, {{0, page}});
    cr_assert_eq(pages_of(0), 2);
    const unique_fd record(::open(record_of(job_id).c_str(), O_RDONLY | O_CLOEXEC));
    cr_assert_eq(::flock(record.get(), LOCK_EX), 0);
    give_back(job);
    cr_assert_eq(pages_of(0), 1);
    struct stat about {};
    cr_assert(::stat((where.run_directory + "/huge_pages.lock").c_str(), &about) == 0);
    cr_assert_eq(about.st_mode & 0777, 0600, "nobody else can open it");
}

// A /run that outlives a start of the system: the pages are those of the new start.
Test(huge_pages, those_of_an_earlier_start_of_the_system_are_gone_with_it) {
    cr_assert_eq(::geteuid(), 0, "this test needs root");
    make_pool(0, 512, 512);
    const auto job = directory_of(job_id);
    for (const bool settled : {false, true}) {
        const taken_pages record{page, settled, "an-earlier-one", {{0, 0, 512}}};
        cr_assert(job.write_file(huge_pages_name, encode_taken(record)).has_value());
        give_back(job);
        cr_assert_eq(pages_of(0), 512);
        cr_assert(!exists(record_of(job_id)));
    }
}

Test(huge_pages, a_record_is_accepted_whole_and_in_no_other_form) {
    for (const bool settled : {false, true}) {
        const taken_pages record{page, settled, "1-2", {{0, 1, 2, 7}, {1023, 5, 5, 0}}};
        const std::string text = encode_taken(record);
        const auto again = decode_taken(text);
        cr_assert(again.has_value() && *again == record);
        for (size_t length = 0; length + 1 < text.size(); length++)
            cr_assert(!decode_taken(text.substr(0, length)), "cut to %zu", length);
    }
    for (const char* bad :
         {"", "\n", "page_bytes 1\nboot 1-2\nsettled\n", "page_bytes 2097152\nsettled\n",
          "page_bytes 2097152\nnode 0 1 2 1\nsettled\n", "page_bytes 2097152\nboot 1-2\nnode 0 2 1 1\nsettled\n",
          "node 0 1 2 1\nsettled\n", "page_bytes 2097152\nboot 1-2\nnode 1024 1 2 1\nsettled\n",
          "page_bytes 2097152\nboot 1-2\nsettled\nnode 0 1 2 1\n",
          "page_bytes 2097152\nboot 1-2\nnode 0 1 99999999999999999999 1\nsettled\n",
          "page_bytes 2097152\nboot 1-2\nnode 0 -1 2 1\nsettled\n"})
        cr_assert(!decode_taken(bad), "'%s'", bad);
}

// With the kernel's own pools.
Test(huge_pages, the_real_kernel_gives_and_takes_them) {
    cr_assert_eq(::geteuid(), 0, "this test needs root");
    const test::pools_of_our_own pools;
    const std::string real = "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/";
    const uint64_t before = std::stoull(read_text(real + "nr_hugepages"));
    const uint64_t free = std::stoull(read_text(real + "free_hugepages"));
    const auto job = directory_of(job_id);
    const auto done = take_huge_pages(job, page, std::vector<page_share>{{0, (free + 4) * page}}, 5000);
    cr_assert(done.has_value(), "%s", done ? "" : done.error().context.c_str());
    cr_assert_eq(std::stoull(read_text(real + "nr_hugepages")), before + 4);
    cr_assert(give_back_huge_pages(job).has_value());
    cr_assert_eq(std::stoull(read_text(real + "nr_hugepages")), before);
}

// Pages that one job has claimed, and its agent has not mapped yet, are free to look at.
Test(huge_pages, two_jobs_do_not_count_on_the_same_pages) {
    cr_assert_eq(::geteuid(), 0, "this test needs root");
    make_pool(0, 100, 100);
    const auto one = directory_of(job_id), other = directory_of(job_id + 1);
    take(one, {{0, 80 * page}});
    cr_assert_eq(pages_of(0), 100);
    take(other, {{0, 70 * page}});
    cr_assert_eq(pages_of(0), 150);
    give_back(one);
    cr_assert_eq(pages_of(0), 150);
    give_back(other);
    cr_assert_eq(pages_of(0), 100);
}

// What a killed program has begun is finished before anybody else counts.
Test(huge_pages, what_was_begun_elsewhere_is_finished_first) {
    cr_assert_eq(::geteuid(), 0, "this test needs root");
    for (uint64_t grown : {uint64_t{0}, uint64_t{400}, uint64_t{1000}}) {
        make_pool(0, 500 + grown, 0);
        const auto dead = directory_of(job_id), next = directory_of(job_id + 1);
        const taken_pages record{page, false, boot_id(), {{0, 500, 1500, 1000}}};
        write_text(record_of(job_id), encode_taken(record), 0644);
        take(next, {{0, 1000 * page}});
        cr_assert(!std::filesystem::exists(record_of(job_id)));
        cr_assert_eq(pages_of(0), 1500);
        give_back(dead);
        cr_assert_eq(pages_of(0), 1500, "the next job's pages stay");
        give_back(next);
        cr_assert_eq(pages_of(0), 500, "the administrator's");
    }
}
