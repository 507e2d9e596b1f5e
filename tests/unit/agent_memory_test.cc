// The arena's size and pages: limits of control groups, reservation, and what becomes of ranks where it fails.
#include "agent/host_memory.h"
#include "agent/memory.h"

#include "agent_support.h"
#include "forbid.h"

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
    const auto memory = need(make_memory(9 << 20));
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
            const auto memory = make_memory(1 << 20);
            if (!memory || !test::forbid(SYS_madvise, refused)) ::_exit(77);
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
