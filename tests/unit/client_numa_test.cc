// CPUs near memory: the kernel's lists, and the choice among the CPUs that are allowed.
#include "client/numa.h"

#include "client/crew.h"

#include <atomic>
#include <criterion/criterion.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

using namespace varde;
using namespace varde::client;

namespace {

cpu_set_t set_of(std::initializer_list<int> cpus) {
    cpu_set_t made;
    CPU_ZERO(&made);
    for (const int cpu : cpus) CPU_SET(static_cast<size_t>(cpu), &made);
    return made;
}

bool is(const std::optional<cpu_set_t>& found, const cpu_set_t& wanted) {
    return found && CPU_EQUAL(&*found, &wanted) != 0;
}

cpu_set_t allowed_now() {
    cpu_set_t found;
    cr_assert_eq(::sched_getaffinity(0, sizeof found, &found), 0);
    return found;
}

// The first CPU that this process may use.
int first_cpu() {
    const cpu_set_t allowed = allowed_now();
    int cpu = 0;
    while (CPU_ISSET(static_cast<size_t>(cpu), &allowed) == 0) cpu++;
    return cpu;
}

// A /sys of the test's own, in which every node has these CPUs.
struct fake_sys {
    std::string root;
    explicit fake_sys(const std::string& cpus) {
        char path[] = "/tmp/varde-numa-XXXXXX";
        cr_assert_not_null(::mkdtemp(path));
        root = path;
        for (int node = 0; node < 64; node++) {
            const std::string folder = root + "/sys/devices/system/node/node" + std::to_string(node);
            std::filesystem::create_directories(folder);
            std::ofstream(folder + "/cpulist") << cpus << "\n";
        }
    }
    ~fake_sys() { std::filesystem::remove_all(root); }
};

int page = 7;

}  // namespace

Test(client_numa, reads_the_kernels_lists) {
    cr_assert(is(parse_cpu_list("0-3,8,12-13"), set_of({0, 1, 2, 3, 8, 12, 13})));
    cr_assert(is(parse_cpu_list("5"), set_of({5})));
    cr_assert(is(parse_cpu_list(""), set_of({})), "a node of memory alone");
    for (const char* bad : {"a", "1-", "-1", "3-1", "1,,2", "1024", "0-99999", "1 2"})
        cr_assert(!parse_cpu_list(bad), "'%s'", bad);
}

Test(client_numa, chooses_among_the_cpus_that_are_allowed) {
    const cpu_set_t allowed = allowed_now();
    if (CPU_COUNT(&allowed) < 2) return;  // nothing to choose from
    const int cpu = first_cpu();
    const fake_sys one(std::to_string(cpu) + ",1000-1023");
    cr_assert(is(cpus_near(&page, one.root), set_of({cpu})));
}

Test(client_numa, says_nothing_where_there_is_no_choice) {
    cr_assert(!cpus_near(&page, fake_sys("0-1023").root), "all of them");
    cr_assert(!cpus_near(&page, fake_sys("1023").root), "none of them");
    cr_assert(!cpus_near(&page, fake_sys("nonsense").root));
    cr_assert(!cpus_near(&page, "/nowhere"));
    cr_assert(!cpus_near(nullptr, fake_sys("0").root), "no page there");
}

Test(client_numa, knows_the_node_of_its_own_cpus) {
    cr_assert(own_numa_node(fake_sys("0-1023").root) == 0);
    cr_assert(!own_numa_node(fake_sys("1023").root), "no node has them");
    cr_assert(!own_numa_node("/nowhere"));
    const cpu_set_t allowed = allowed_now();
    if (CPU_COUNT(&allowed) < 2) return;
    const std::string cpu = std::to_string(first_cpu());
    const fake_sys some(cpu);
    cr_assert(!own_numa_node(some.root), "others are elsewhere");
    std::ofstream(some.root + "/sys/devices/system/node/node0/cpulist") << "1023\n";
    std::ofstream(some.root + "/sys/devices/system/node/node1/cpulist") << "0-1022\n";
    cr_assert(own_numa_node(some.root) == 1);
}

Test(client_numa, knows_the_node_of_a_gpu) {
    const fake_sys host("0");
    const std::string device = host.root + "/sys/bus/pci/devices/0000:1b:00.0";
    std::filesystem::create_directories(device);
    std::ofstream(device + "/numa_node") << "1\n";
    cr_assert(numa_node_of_pci("0000:1B:00.0", host.root) == 1);
    cr_assert(!numa_node_of_pci("0000:1C:00.0", host.root) && !numa_node_of_pci("", host.root));
    cr_assert(!numa_node_of_pci("../devices/0000:1b:00.0", host.root), "no path");
    std::ofstream(device + "/numa_node") << "-1\n";
    cr_assert(!numa_node_of_pci("0000:1B:00.0", host.root), "the firmware does not tell");
}

Test(client_numa, a_crew_works_where_it_is_told) {
    const cpu_set_t wanted = set_of({first_cpu()});
    crew hands;
    cr_assert(hands.hire(3, wanted).has_value());
    static std::atomic<int> elsewhere;
    elsewhere = 0;
    hands.begin(
        64,
        [](void* cpus, uint64_t) {
            cpu_set_t mine;
            const bool good = ::sched_getaffinity(0, sizeof mine, &mine) == 0 &&
                              CPU_EQUAL(&mine, static_cast<const cpu_set_t*>(cpus)) != 0;
            elsewhere += good ? 0 : 1;
        },
        const_cast<cpu_set_t*>(&wanted));
    hands.wait();
    cr_assert_eq(elsewhere.load(), 0);
}
