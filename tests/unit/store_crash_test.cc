// Pulling the plug: a child writes, seals, commits and retires generations, and is killed after its first change to
// storage, its second, its third, until it gets to the end.  After each death the newest complete generation must be
// whole and not older than what was acknowledged, and a successor must be able to go on and to tidy up.
//
// The kernel keeps what a killed process has written, so death alone does not show a missing fsync: the second test
// reads the order of the calls and holds it against what a power loss may drop, namely everything that was not synced.
#include "store_support.h"

#include <map>
#include <set>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>

using namespace store_test;

namespace {

constexpr uint32_t node_count = 2;
constexpr uint64_t steps = 3;
constexpr uint32_t keep = 1;
constexpr size_t pack_bytes = 8192;

std::string content_of(generation_id id, uint32_t node) {
    return std::string(pack_bytes, static_cast<char>('a' + id.step * node_count + node));
}

// One generation as an agent writes it; `acknowledged` is memory that the parent shares.
bool write_one(run_directory& run, generation_id id, uint64_t* acknowledged) {
    for (uint32_t node = 0; node < node_count; ++node) {
        result<pack_file> pack = run.create_pack(id, node, node_count, pack_bytes);
        if (!pack) return false;
        alignas(4096) static char bytes[pack_bytes];
        std::memcpy(bytes, content_of(id, node).data(), pack_bytes);
        if (::pwrite(pack->fd(), bytes, pack_bytes, 0) != static_cast<ssize_t>(pack_bytes)) return false;
        if (!pack->seal()) return false;
        ::syscall(SYS_getpgrp);  // where the trace shows "sealed"
    }
    if (!run.commit(manifest_of(id, node_count, pack_bytes))) return false;
    *acknowledged = id.step;
    ::syscall(SYS_getppid);  // where the trace shows "acknowledged"
    return run.retire(keep, id).has_value();
}

int write_all_steps(const std::string& directory, uint64_t* acknowledged) {
    result<run_directory> run = run_directory::open(directory, "run", true);
    if (!run) return 1;
    result<roster> nodes = run->open_roster(true);
    if (!nodes || !nodes->claim_incarnation("{}")) return 2;
    for (uint64_t step = 1; step <= steps; ++step) {
        if (!write_one(*run, {step, 1}, acknowledged)) return 3;
    }
    return 0;
}

struct call {
    uint64_t number = 0;
    uint64_t args[6]{};
    std::string text1, text2;  // the path arguments
    int64_t returned = 0;
};

bool changes_storage(uint64_t number) {
    switch (number) {
    case SYS_openat:
    case SYS_mkdir:
    case SYS_mkdirat:
    case SYS_write:
    case SYS_pwrite64:
    case SYS_fsync:
    case SYS_fdatasync:
    case SYS_renameat:
    case SYS_renameat2:
    case SYS_linkat:
    case SYS_unlinkat:
    case SYS_symlinkat:
    case SYS_fallocate: return true;
    default: return false;
    }
}

std::string read_path(pid_t child, uint64_t address) {
    char text[512] = "";
    const iovec to{text, sizeof text - 1}, from{reinterpret_cast<void*>(address), sizeof text - 1};
    // A path at the end of a mapped page: the kernel copies whole pieces, so ask for less.
    for (iovec part = from, into = to; part.iov_len > 16; part.iov_len /= 2, into.iov_len /= 2) {
        if (::process_vm_readv(child, &into, 1, &part, 1, 0) > 0) break;
    }
    return text;
}

void read_paths(pid_t child, call& made) {
    switch (made.number) {
    case SYS_openat:
    case SYS_mkdirat:
    case SYS_unlinkat: made.text1 = read_path(child, made.args[1]); break;
    case SYS_renameat:
    case SYS_renameat2:
    case SYS_linkat:
        made.text1 = read_path(child, made.args[1]);
        made.text2 = read_path(child, made.args[3]);
        break;
    default: break;
    }
}

struct traced {
    bool allowed = true;
    bool finished = false;  // the child came to its end
    int status = 0;
    std::vector<call> calls;  // all that ended
};

// Runs `work` in a child and kills it after the `kill_after`-th call that changes storage (0: never).
traced run_traced(const std::function<int()>& work, unsigned kill_after) {
    traced seen;
    const pid_t child = ::fork();
    if (child == 0) {
        if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(77);
        ::raise(SIGSTOP);
        ::_exit(work());
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFEXITED(status)) {
        seen.allowed = false;
        return seen;
    }
    ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    call made;
    unsigned changes = 0;
    while (true) {
        ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
        ::waitpid(child, &status, 0);
        if (WIFEXITED(status) || WIFSIGNALED(status)) break;
        if (!WIFSTOPPED(status) || WSTOPSIG(status) != (SIGTRAP | 0x80)) continue;
        __ptrace_syscall_info info{};
        ::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info);
        if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
            made = {};
            made.number = info.entry.nr;
            std::copy_n(info.entry.args, 6, made.args);
            read_paths(child, made);
        } else if (info.op == PTRACE_SYSCALL_INFO_EXIT) {
            made.returned = info.exit.rval;
            seen.calls.push_back(made);
            if (changes_storage(made.number) && ++changes == kill_after) ::kill(child, SIGKILL);
        }
    }
    seen.finished = WIFEXITED(status);
    seen.status = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    return seen;
}

void check_whole(const run_directory& run, generation_id id) {
    for (uint32_t node = 0; node < node_count; ++node)
        cr_assert(read_file(generation_path(run, id) + "/" + pack_name(node, node_count)) == content_of(id, node),
                  "%s, node %u", generation_name(id).c_str(), node);
}

// What a restart finds, and that a successor can go on from it.
void check_after_death(const std::string& directory, uint64_t acknowledged, unsigned kill_after) {
    result<run_directory> run = run_directory::open(directory, "run", true);
    cr_assert(run.has_value(), "after change %u: %s", kill_after, run ? "" : run.error().context.c_str());
    need(run->list());
    const result<generation> chosen = run->choose(nullptr);
    cr_assert(chosen || chosen.error().what == code::not_found, "after change %u: %s", kill_after,
              chosen ? "" : chosen.error().context.c_str());
    cr_assert_geq(chosen ? chosen->id.step : 0, acknowledged, "after change %u", kill_after);
    if (chosen) check_whole(*run, chosen->id);
    roster nodes = need(run->open_roster(true));
    const generation_id next{(chosen ? chosen->id.step : 0) + 1, need(nodes.claim_incarnation("{}"))};
    uint64_t acknowledged_next = 0;
    cr_assert(write_one(*run, next, &acknowledged_next), "after change %u", kill_after);
    const std::vector<generation> left = need(run->list());
    for (const generation& one : left) {
        // Only an unfinished one that is newer may be left: it is not for this retire() to judge.
        cr_assert(one.id == next || (one.id > next && one.status != generation_status::complete), "after change %u: %s",
                  kill_after, generation_name(one.id).c_str());
    }
    check_whole(*run, next);
    for (const auto& entry : std::filesystem::directory_iterator(run->path())) {
        const std::string name = entry.path().filename();
        cr_assert(name[0] != '.', "after change %u: %s", kill_after, name.c_str());
    }
}

struct shared_number {
    uint64_t* at =
        static_cast<uint64_t*>(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    ~shared_number() { ::munmap(at, 4096); }
};

}  // namespace

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
