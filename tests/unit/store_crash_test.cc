// Pulling the plug: a child writes, seals, commits and retires generations, and is killed after its first change to
// storage, its second, its third, until it gets to the end.  After each death the newest complete generation must be
// whole and not older than what was acknowledged, and a successor must be able to go on and to tidy up.
//
// The kernel keeps what a killed process has written, so death alone does not show a missing fsync: the second test
// reads the order of the calls and holds it against what a power loss may drop, namely everything that was not synced.
#include "store_crash_support.h"

using namespace store_test;

Test(crash, after_every_change_the_newest_complete_generation_is_whole, .timeout = 120) {
    const shared_number acknowledged;
    unsigned deaths = 0;
    while (true) {
        temporary_directory at("/dev/shm");  // a death loses nothing that a disk would keep: no need to wait for one
        *acknowledged.at = 0;
        const traced seen = run_traced([&]() { return write_all_steps(at.path(), acknowledged.at); }, deaths + 1);
        if (!seen.allowed) cr_skip_test("no ptrace here");
        if (seen.finished) {
            cr_assert_eq(seen.status, 0);
            break;
        }
        ++deaths;
        // Killed before the run's directory was there: nothing to look at.
        if (exists(at.path() + "/run")) check_after_death(at.path(), *acknowledged.at, deaths);
    }
    cr_assert_eq(*acknowledged.at, steps);
    cr_assert_gt(deaths, 60, "the loop has killed the child only %u times: it does not see its calls", deaths);
}

Test(crash, nothing_is_named_before_it_is_synced_nor_deleted_before_a_newer_one_is) {
    temporary_directory at;
    const shared_number acknowledged;
    const traced seen = run_traced([&]() { return write_all_steps(at.path(), acknowledged.at); }, 0);
    if (!seen.allowed) cr_skip_test("no ptrace here");
    cr_assert(seen.finished && seen.status == 0);
    std::map<int64_t, std::string> opened;  // descriptor -> name it was opened under
    std::set<std::string> unsynced;         // files with data, and directories with names, that a power loss would drop
    unsigned renames = 0, deletions = 0, acknowledgements = 0;
    for (const call& made : seen.calls) {
        if (made.returned < 0) continue;
        // A sanitizer's runtime writes into pipes of its own: those have no name here.
        const auto file = opened.find(static_cast<int32_t>(made.args[0]));
        const std::string name = file == opened.end() ? "" : file->second;
        switch (made.number) {
        case SYS_openat: opened[made.returned] = made.text1; break;
        case SYS_close: opened.erase(static_cast<int32_t>(made.args[0])); break;
        case SYS_write:
        case SYS_pwrite64:
        case SYS_fallocate:
        case SYS_mkdirat:
            if (!name.empty()) unsynced.insert(name);
            break;
        case SYS_fsync: unsynced.erase(name); break;
        case SYS_renameat:
        case SYS_renameat2:
            if (made.text2 == "latest") break;  // nobody reads it
            cr_assert(!unsynced.contains(made.text1), "%s becomes %s before its content is synced", made.text1.c_str(),
                      made.text2.c_str());
            unsynced.insert(name);
            ++renames;
            break;
        case SYS_getpgrp:
            for (const std::string& one : unsynced)
                cr_assert(!one.starts_with("step-"), "sealed with '%s' not synced", one.c_str());
            break;
        case SYS_getppid:
            for (const std::string& one : unsynced) cr_assert(false, "acknowledged with '%s' not synced", one.c_str());
            ++acknowledgements;
            break;
        case SYS_unlinkat:
            if (!made.text1.starts_with("node-") || made.text1.ends_with(".partial")) break;
            cr_assert_geq(acknowledgements, 2, "the only generation is being deleted");
            cr_assert(!unsynced.contains("run"), "packs are deleted before their directory's new name is synced");
            ++deletions;
            break;
        default: break;
        }
    }
    cr_assert_eq(acknowledgements, steps);
    cr_assert_geq(renames, steps * (node_count + 1) + 1 + (steps - keep));
    cr_assert_eq(deletions, (steps - keep) * node_count);
}
