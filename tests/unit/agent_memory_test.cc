// The arena's size and pages: limits of control groups, reservation, and what becomes of ranks where it fails.
#include "agent/host_memory.h"
#include "agent/memory.h"

#include "agent_support.h"
#include "forbid.h"
#include "huge_pages.h"

#include <sys/mman.h>
#include <sys/wait.h>

using namespace agent_test;

namespace {

// A /proc and a /sys of the test's own.
struct fake_host {
    temporary_directory at;
    void write(const std::string& path, const std::string& text) const {
        const std::string whole = at.path() + path;
        std::filesystem::create_directories(std::filesystem::path(whole).parent_path());
        std::ofstream(whole) << text;
    }
    uint64_t usable() const { return usable_memory_bytes(at.path()); }
};

constexpr uint64_t gib = 1ULL << 30;

uint64_t node_bytes() { return usable_memory_bytes("/nowhere"); }

}  // namespace

Test(agent_memory, without_control_groups_it_is_the_nodes) {
    const fake_host host;
    cr_assert_eq(host.usable(), node_bytes());
    cr_assert_geq(node_bytes(), 1U << 20);
    host.write("/proc/self/cgroup", "garbage\n::\n0::relative\n0::/\n");
    cr_assert_eq(host.usable(), node_bytes());
}

Test(agent_memory, the_smallest_limit_on_the_way_up_counts) {
    const fake_host host;
    host.write("/proc/self/cgroup", "0::/system/job/step\n");
    host.write("/sys/fs/cgroup/system/job/step/memory.max", "max\n");
    cr_assert_eq(host.usable(), node_bytes());
    host.write("/sys/fs/cgroup/system/job/memory.max", std::to_string(gib / 2) + "\n");
    cr_assert_eq(host.usable(), gib / 2);
    host.write("/sys/fs/cgroup/system/memory.max", std::to_string(gib / 4) + "\n");
    cr_assert_eq(host.usable(), gib / 4);
    host.write("/sys/fs/cgroup/system/job/step/memory.max", std::to_string(gib / 8) + "\n");
    cr_assert_eq(host.usable(), gib / 8);
}

Test(agent_memory, version_1_and_containers_count_too) {
    const fake_host host;
    host.write("/proc/self/cgroup", "9:cpu,cpuacct:/slurm/job\n5:blkio,memory:/slurm/job\n0::/\n");
    host.write("/sys/fs/cgroup/memory/slurm/job/memory.limit_in_bytes", "9223372036854771712\n");
    cr_assert_eq(host.usable(), node_bytes(), "no limit");
    host.write("/sys/fs/cgroup/memory/slurm/memory.limit_in_bytes", std::to_string(gib / 2));
    cr_assert_eq(host.usable(), gib / 2);
    // The path is the host's; what is mounted is the container's own group.
    host.write("/proc/self/cgroup", "5:memory:/docker/4711\n");
    host.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(gib / 4));
    cr_assert_eq(host.usable(), gib / 4);
}

Test(agent_memory, reserved_pages_are_there) {
    const auto memory = need(make_memory({.size_bytes = 9 << 20})).memory;
    need(reserve_memory(memory.arena));
    std::vector<unsigned char> present(memory.arena.size_bytes() / 4096);
    cr_assert_eq(::mincore(memory.arena.data(), memory.arena.size_bytes(), present.data()), 0);
    for (const unsigned char page : present) cr_assert((page & 1) != 0);
}

// An old kernel that has no MADV_POPULATE_WRITE, and one that has no page left.
Test(agent_memory, reserves_without_the_system_call_and_says_when_it_cannot) {
    for (const int refused : {EINVAL, ENOMEM}) {
        const pid_t child = ::fork();
        if (child == 0) {
            const auto made = make_memory({.size_bytes = 1 << 20});
            if (!made || !test::forbid(SYS_madvise, refused)) ::_exit(77);
            const node_memory* memory = &made->memory;
            memory->arena.data()[4096] = std::byte{7};
            const auto done = reserve_memory(memory->arena);
            unsigned char present[256] = {};
            ::mincore(memory->arena.data(), 1 << 20, present);
            const bool all = std::all_of(present, present + 256, [](unsigned char page) { return (page & 1) != 0; });
            const bool kept = memory->arena.data()[4096] == std::byte{7};
            if (refused == EINVAL) ::_exit(done && all && kept ? 0 : 1);
            ::_exit(!done && done.error().os_errno == ENOMEM && kept ? 0 : 1);
        }
        int status = 0;
        cr_assert_eq(::waitpid(child, &status, 0), child);
        if (WEXITSTATUS(status) == 77) cr_skip_test("no seccomp here");
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "errno %d: status %d", refused, status);
    }
}

// ---- Huge pages

namespace {

constexpr uint64_t huge = 2 << 20;

uint64_t page_bytes_of(int fd) {
    struct stat found {};
    cr_assert_eq(::fstat(fd, &found), 0);
    return static_cast<uint64_t>(found.st_blksize);
}

}  // namespace

Test(agent_memory, is_on_huge_pages_where_the_kernel_has_them) {
    cr_assert_eq(::geteuid(), 0, "this test needs root");
    const test::huge_pages_allowed allowed(64);
    for (const uint64_t wanted : {128 * (uint64_t{1} << 20), 100 * huge / 2 + 12'345}) {
        const auto made = need(make_memory({.size_bytes = wanted, .huge_page_bytes = huge}));
        cr_assert(made.memory.huge && made.refusal.empty(), "%s", made.refusal.c_str());
        cr_assert_eq(page_bytes_of(made.memory.arena_fd.get()), huge);
        cr_assert_geq(made.memory.arena.size_bytes(), wanted);
        cr_assert_leq(made.memory.arena.size_bytes() - wanted, wanted / 50, "at most 2 % over");
        need(reserve_memory(made.memory.arena));
        need(lock_memory(made.memory));
        made.memory.arena.data()[made.memory.arena.size_bytes() - 1] = std::byte{1};
        cr_assert_neq(::ftruncate(made.memory.arena_fd.get(), 0), 0, "sealed");
    }
}

Test(agent_memory, has_ordinary_pages_where_huge_ones_cannot_be_had_or_would_waste_memory) {
    struct {
        uint64_t size_bytes, page_bytes;
        const char* why;
    } cases[] = {{uint64_t{1} << 40, huge, "couldn't have 1 TiB on huge pages of 2 MiB"},
                 {9 << 20, huge, "would take 10 MiB"},
                 {3 << 20, 1 << 30, "would take 1 GiB"},
                 {8 << 20, 64 << 10, "couldn't have 8 MiB on huge pages of 64 KiB"}};
    for (const auto& each : cases) {
        const auto made = make_memory({.size_bytes = each.size_bytes, .huge_page_bytes = each.page_bytes});
        cr_assert(made.has_value(), "%s", made ? "" : made.error().context.c_str());
        cr_assert(!made->memory.huge && made->memory.arena.size_bytes() == each.size_bytes);
        cr_assert(made->refusal.find(each.why) != std::string::npos, "%s", made->refusal.c_str());
        cr_assert(made->refusal.find("ordinary pages are used") != std::string::npos, "%s", made->refusal.c_str());
    }
}
