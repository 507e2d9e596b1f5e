// Pulling the plug: a child that writes, seals, commits and retires generations, traced call by call, and what must
// hold after its death.
#pragma once

#include "store_support.h"

#include <map>
#include <set>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>

namespace store_test {

constexpr uint32_t node_count = 2;
constexpr uint64_t steps = 3;
constexpr uint32_t keep = 1;
constexpr size_t pack_bytes = 8192;

inline std::string content_of(generation_id id, uint32_t node) {
    return std::string(pack_bytes, static_cast<char>('a' + id.step * node_count + node));
}

// One generation as an agent writes it; `acknowledged` is memory that the parent shares.
inline bool write_one(run_directory& run, generation_id id, uint64_t* acknowledged) {
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

inline int write_all_steps(const std::string& directory, uint64_t* acknowledged,
                           const std::vector<std::string>& mounts = {}, uint64_t last_step = steps) {
    result<run_directory> run = run_directory::open(directory, "run", true);
    if (!run) return 1;
    run->spread_over(mounts);
    result<roster> nodes = run->open_roster(true);
    if (!nodes || !nodes->claim_incarnation("{}")) return 2;
    for (uint64_t step = 1; step <= last_step; ++step) {
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

inline bool changes_storage(uint64_t number) {
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

inline std::string read_path(pid_t child, uint64_t address) {
    char text[512] = "";
    const iovec to{text, sizeof text - 1}, from{reinterpret_cast<void*>(address), sizeof text - 1};
    // A path at the end of a mapped page: the kernel copies whole pieces, so ask for less.
    for (iovec part = from, into = to; part.iov_len > 16; part.iov_len /= 2, into.iov_len /= 2) {
        if (::process_vm_readv(child, &into, 1, &part, 1, 0) > 0) break;
    }
    return text;
}

inline void read_paths(pid_t child, call& made) {
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
    case SYS_symlinkat:
        made.text1 = read_path(child, made.args[2]);
        made.text2 = read_path(child, made.args[0]);
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
inline traced run_traced(const std::function<int()>& work, unsigned kill_after) {
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

inline void check_whole(const run_directory& run, generation_id id) {
    for (uint32_t node = 0; node < node_count; ++node)
        cr_assert(read_file(generation_path(run, id) + "/" + pack_name(node, node_count)) == content_of(id, node),
                  "%s, node %u", generation_name(id).c_str(), node);
}

// What a restart finds, and that a successor can go on from it.
inline void check_after_death(const std::string& directory, uint64_t acknowledged, unsigned kill_after,
                              const std::vector<std::string>& mounts = {}) {
    result<run_directory> run = run_directory::open(directory, "run", true);
    cr_assert(run.has_value(), "after change %u: %s", kill_after, run ? "" : run.error().context.c_str());
    run->spread_over(mounts);
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

}  // namespace store_test
