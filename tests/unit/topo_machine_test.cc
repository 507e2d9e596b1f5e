// What is read out of hwloc: the machines of tests/topo, this machine, and XML that is wrong or hostile.
#include "topo_support.h"

#include "topo/bundles.h"
#include "topo/device_files.h"

#include <filesystem>
#include <random>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace topo_test;

namespace {

std::string text_of(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& each : words) text += (text.empty() ? "" : " ") + each;
    return text;
}

// "0: 16 GiB of 0-3" and the like, a line per node.
std::string nodes_of(const machine& what) {
    std::string text;
    for (const numa_node& each : what.nodes) {
        text += std::to_string(each.index) + ": " + std::to_string(each.bytes / gib) + " GiB";
        if (each.kind == memory_kind::cpu) text += " of " + format_cpus(each.cpus);
        if (each.kind == memory_kind::gpu) text += " of GPU " + each.gpu;
        if (each.kind == memory_kind::other) text += " of others";
        text += each.allowed ? "\n" : ", not allowed\n";
    }
    return text;
}

// "ADDRESS NAMES at NODES", a line per device of this kind.
std::string devices_of(const machine& what, device_kind kind) {
    std::string text;
    for (const device& each : what.devices) {
        if (each.kind != kind) continue;
        text += each.pci + " " + text_of(each.names) + " at";
        for (const uint32_t node : each.nodes) text += " " + std::to_string(node);
        text += "\n";
    }
    return text;
}

void expect_text(const std::string& got, const std::string& expected) {
    cr_expect(got == expected, "got:\n%s\nexpected:\n%s", got.c_str(), expected.c_str());
}

// The outcome of `what` in a child with a name space of mounts of its own; 77 where there can be none.
int in_own_mounts(int (*what)()) {
    const pid_t child = ::fork();
    if (child == 0) {
        if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
            ::_exit(77);
        ::_exit(what());
    }
    int status = -1;
    cr_assert(::waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

// 0: this machine is described and planned for.
int describes_this_machine() {
    const auto found = load_machine();
    if (!found || found->nodes.empty() || found->allowed.none()) return 1;
    return make_plan(*found, {.arena_bytes = gib}).has_value() ? 0 : 2;
}

bool hide(const char* path) { return ::mount("none", path, "tmpfs", 0, nullptr) == 0; }

}  // namespace

Test(topo_machine, hgx_has_gpus_beside_compute_interfaces) {
    const machine hgx = machine_of("hgx");
    cr_expect(hgx.model == "HGX H100" && format_cpus(hgx.allowed) == "0-223");
    expect_text(nodes_of(hgx), "0: 1024 GiB of 0-55,112-167\n1: 1024 GiB of 56-111,168-223\n");
    expect_text(devices_of(hgx, device_kind::gpu),
                "0000:1b:00.0 nvml0 at 0\n0000:43:00.0 nvml1 at 0\n0000:52:00.0 nvml2 at 0\n0000:61:00.0 nvml3 at 0\n"
                "0000:9d:00.0 nvml4 at 1\n0000:c3:00.0 nvml5 at 1\n0000:d1:00.0 nvml6 at 1\n0000:df:00.0 nvml7 at 1\n");
    expect_text(devices_of(hgx, device_kind::network),
                "0000:18:00.0 ibp24s0 mlx5_0 at 0\n0000:29:00.0 enp41s0f0np0 mlx5_8 at 0\n"
                "0000:40:00.0 ibp64s0 mlx5_1 at 0\n0000:4f:00.0 ibp79s0 mlx5_2 at 0\n0000:5e:00.0 ibp94s0 mlx5_3 at 0\n"
                "0000:9a:00.0 ibp154s0 mlx5_4 at 1\n0000:c0:00.0 ibp192s0 mlx5_5 at 1\n"
                "0000:ce:00.0 ibp206s0 mlx5_6 at 1\n0000:dc:00.0 ibp220s0 mlx5_7 at 1\n");
    expect_text(devices_of(hgx, device_kind::block), "0000:06:00.0 nvme0n1 at 0\n0000:86:00.0 nvme1n1 at 1\n");
    cr_expect(find_gpu(hgx, "0")->model == "GH100 [H100 SXM5 80GB]");
    cr_expect(hgx.latency == std::vector<std::vector<uint64_t>>({{10, 21}, {21, 10}}));
}

Test(topo_machine, gpus_are_found_by_number_address_and_name) {
    const machine hgx = machine_of("hgx");
    for (const char* text : {"4", "0000:9d:00.0", "9D:00.0", "00000000:9D:00.0", "nvml4"}) {
        const device* found = find_gpu(hgx, text);
        cr_expect(found != nullptr && found->pci == "0000:9d:00.0", "%s", text);
    }
    for (const char* text : {"8", "", "9d:00.1", "mlx5_8", "card0", "-1"})
        cr_expect(find_gpu(hgx, text) == nullptr, "%s", text);
    cr_expect(find_device(hgx, "mlx5_8") == find_device(hgx, "enp41s0f0np0"));
    cr_expect(find_device(hgx, "nvme1n1")->pci == "0000:86:00.0");
    cr_expect(find_device(hgx, "nvml0") == nullptr && find_device(hgx, "") == nullptr);
}

// On some boards /dev/nvidia0 is not the first GPU on the bus; Slurm numbers by the files.
Test(topo_machine, gpus_have_the_numbers_of_their_device_files) {
    machine epyc = machine_of("epyc_nps4");
    const std::string root = std::filesystem::temp_directory_path() / ("varde-topo-" + std::to_string(::getpid()));
    const auto tell = [&](const std::string& pci, const std::string& minor) {
        const std::string folder = root + "/proc/driver/nvidia/gpus/" + pci;
        std::filesystem::create_directories(folder);
        std::ofstream(folder + "/information")
            << "Model: \t\t A100\nIRQ:   \t\t 7\nDevice Minor: \t " << minor << "\nx: 1\n";
    };
    tell("0000:03:00.0", "2");
    tell("0000:41:00.0", "3");
    tell("0000:82:00.0", "0");
    tell("0000:c1:00.0", "x");
    machine partly = epyc;
    name_device_files(partly, root);
    cr_expect(find_gpu(partly, "0")->pci == "0000:03:00.0" && find_gpu(partly, "nvidia0")->pci == "0000:82:00.0");
    tell("0000:c1:00.0", "1");
    name_device_files(epyc, root);
    cr_expect(find_gpu(epyc, "0")->pci == "0000:82:00.0" && find_gpu(epyc, "2")->pci == "0000:03:00.0");
    cr_expect(gpu_number(epyc, *find_gpu(epyc, "c1:00.0")) == 1 && find_gpu(epyc, "4") == nullptr);
    std::filesystem::remove_all(root);
}

Test(topo_machine, the_pci_tree_tells_what_is_near) {
    const machine hgx = machine_of("hgx");
    const auto shared = [&](const char* gpu, const char* other) {
        return shared_buses(*find_gpu(hgx, gpu), *find_device(hgx, other));
    };
    cr_expect(shared("0", "mlx5_0") == 3, "behind the same switch");
    cr_expect(shared("0", "mlx5_1") == 0 && shared("0", "mlx5_8") == 0, "below different host bridges");
}

Test(topo_machine, pci_addresses_have_one_spelling) {
    const std::pair<const char*, const char*> good[] = {{"1b:00.0", "0000:1b:00.0"},
                                                        {"0009:01:00.0", "0009:01:00.0"},
                                                        {"0000:C1:1F.7", "0000:c1:1f.7"},
                                                        {"00000009:01:00.0", "0009:01:00.0"}};
    for (const auto& [text, expected] : good) cr_expect(parse_pci_address(text) == expected, "%s", text);
    for (const char* text : {"", "1b", "1b:00", "1b:00.8", "1b:20.0", "b:00.0", "1b-00.0", "0:1b:00.0", "1b:00.0 ",
                             "10000000:1b:00.0", "0000:0000:1b:00.0", "gg:00.0", "1b:00,0"})
        cr_expect(!parse_pci_address(text).has_value(), "%s", text);
}

Test(topo_machine, epyc_has_four_nodes_in_a_socket) {
    const machine epyc = machine_of("epyc_nps4");
    expect_text(nodes_of(epyc),
                "0: 64 GiB of 0-15,64-79\n1: 64 GiB of 16-31,80-95\n2: 64 GiB of 32-47,96-111\n"
                "3: 64 GiB of 48-63,112-127\n");
    expect_text(devices_of(epyc, device_kind::gpu),
                "0000:03:00.0 nvml0 at 3\n0000:41:00.0 nvml1 at 2\n"
                "0000:82:00.0 nvml2 at 1\n0000:c1:00.0 nvml3 at 0\n");
}

Test(topo_machine, memory_of_gpus_is_told_apart) {
    const machine grace = machine_of("grace");
    expect_text(nodes_of(grace),
                "0: 120 GiB of 0-71\n1: 120 GiB of 72-143\n2: 120 GiB of 144-215\n3: 120 GiB of 216-287\n"
                "4: 96 GiB of GPU 0009:01:00.0\n12: 96 GiB of GPU 0019:01:00.0\n"
                "20: 96 GiB of GPU 0029:01:00.0\n28: 96 GiB of GPU 0039:01:00.0\n");
    expect_text(devices_of(grace, device_kind::gpu),
                "0009:01:00.0 nvml0 at 0\n0019:01:00.0 nvml1 at 1\n"
                "0029:01:00.0 nvml2 at 2\n0039:01:00.0 nvml3 at 3\n");
}

Test(topo_machine, memory_without_cpus_of_its_own_is_told_apart_without_a_driver) {
    std::string xml = xml_of("grace");
    // An older hwloc, or a kernel without the driver, says neither of these.
    const std::pair<std::string, std::string> words[] = {{"subtype=\"GPUMemory\"", ""}, {"PCIBusID", "Unknown"}};
    for (const auto& [word, instead] : words)
        for (size_t at = 0; (at = xml.find(word)) != std::string::npos;) xml.replace(at, word.size(), instead);
    const machine grace = need(parse_machine(xml, "grace"));
    expect_text(nodes_of(grace),
                "0: 120 GiB of 0-71\n1: 120 GiB of 72-143\n2: 120 GiB of 144-215\n3: 120 GiB of 216-287\n"
                "4: 96 GiB of others\n12: 96 GiB of others\n20: 96 GiB of others\n28: 96 GiB of others\n");
    cr_expect(devices_of(grace, device_kind::gpu) == devices_of(machine_of("grace"), device_kind::gpu));
}

Test(topo_machine, no_gpu_and_cpus_in_turns) {
    const machine found = machine_of("no_gpu");
    cr_expect(gpus_of(found).empty());
    cr_expect(found.nodes[1].cpus.count() == 32 && found.nodes[1].cpus[1] && !found.nodes[1].cpus[2]);
    expect_text(devices_of(found, device_kind::network), "0000:04:00.0 eno1 at 0\n0000:31:00.0 ib0 mlx5_0 at 0\n");
}

Test(topo_machine, what_a_cgroup_takes_away_is_shown_and_not_allowed) {
    const machine found = machine_of("cgroup");
    cr_expect(format_cpus(found.allowed) == "4-7,20-23");
    expect_text(nodes_of(found), "0: 256 GiB of 0-31\n");
}

Test(topo_machine, memory_that_a_cgroup_takes_away_is_not_allowed) {
    std::string xml = xml_of("no_gpu");
    const std::string all = "allowed_nodeset=\"0x00000003\"";
    const size_t at = xml.find(all);
    cr_assert(at != std::string::npos);
    xml.replace(at, all.size(), "allowed_nodeset=\"0x00000002\"");
    const machine found = need(parse_machine(xml, "one node"));
    cr_expect(!found.nodes[0].allowed && found.nodes[1].allowed);
}

Test(topo_machine, devices_without_locality_are_nowhere) {
    const machine found = machine_of("no_locality");
    expect_text(devices_of(found, device_kind::gpu),
                "0001:21:00.0 nvml0 at\n0001:41:00.0 nvml1 at\n0001:61:00.0 nvml2 at\n");
    expect_text(devices_of(found, device_kind::network), "0000:81:00.0 ens5 at\n");
}

Test(topo_machine, this_machine_is_described) {
    const machine here = need(load_machine());
    cpu_set_t mine;
    cr_assert(::sched_getaffinity(0, sizeof mine, &mine) == 0);
    cr_expect(here.allowed.count() >= static_cast<size_t>(CPU_COUNT(&mine)), "%s", format_cpus(here.allowed).c_str());
    cpu_set near;
    for (const numa_node& each : here.nodes)
        if (each.kind == memory_kind::cpu) near |= each.cpus;
    cr_expect((here.allowed & ~near).none());
    cr_expect(here == need(load_machine()), "the same machine, the same description");
}

// hwloc 2.9 ends in an assertion where the folder of NUMA nodes is there and empty: an error, then, and not our end.
Test(topo_machine, this_machine_is_described_where_sysfs_is_hidden) {
    const int outcome = in_own_mounts([] { return hide("/sys") ? describes_this_machine() : 77; });
    if (outcome == 77) cr_skip_test("no mounts of our own here");
    cr_expect(outcome == 0, "without /sys: %d", outcome);
    const int buses = in_own_mounts([] { return hide("/sys/bus") ? describes_this_machine() : 0; });
    cr_expect(buses == 0, "without buses: %d", buses);
    const int nodes = in_own_mounts([] { return hide("/sys/devices/system/node") ? describes_this_machine() : 0; });
    cr_expect(nodes == 0 || nodes == 1, "without NUMA nodes: %d", nodes);
}

Test(topo_machine, a_variable_of_hwloc_does_not_pass_for_this_machine) {
    cr_assert(::setenv("HWLOC_SYNTHETIC", "numa:2 pu:2", 1) == 0);
    const auto found = load_machine();
    cr_assert(!found.has_value());
    cr_expect(found.error().context.find("unset it") != std::string::npos, "%s", found.error().context.c_str());
}

Test(topo_machine, what_is_no_machine_is_refused) {
    cr_expect(load_machine_file("tests/topo/none.xml").error().what == code::not_found);
    cr_expect(load_machine_file("tests/topo").error().what == code::invalid);
    cr_expect(load_machine_file("/dev/zero").error().what == code::invalid);
    for (const char* text : {"", " ", "<", "machine", "<topology version=\"2.0\"/>", "<?xml version=\"1.0\"?>"}) {
        const auto found = parse_machine(text, "odd");
        cr_assert(!found.has_value(), "%s", text);
        cr_expect(found.error().what == code::damaged && found.error().context.find("'odd'") != std::string::npos);
    }
    cr_expect(parse_machine(std::string(17 << 20, ' '), "large").error().what == code::damaged);
    std::string endless = xml_of("cgroup");
    for (size_t at = 0; (at = endless.find("cpuset=\"0xffffffff\"")) != std::string::npos;)
        endless.replace(at, 19, "cpuset=\"0xf...f\"");
    cr_expect(parse_machine(endless, "endless").error().what == code::damaged);
}

Test(topo_machine, bonds_lead_to_their_interfaces) {
    machine hgx = machine_of("hgx");
    const std::string root = std::filesystem::temp_directory_path() / ("varde-bonds-" + std::to_string(::getpid()));
    const auto make = [&](const std::string& folder) {
        std::filesystem::create_directories(root + "/sys/class/" + folder);
    };
    for (const char* folder :
         {"net/enp41s0f0np0", "net/bond0/lower_ibp154s0", "net/bond0/lower_enp41s0f0np0", "net/bond0.100/lower_bond0",
          "net/lo", "net/loop/lower_loop", "block/md0/slaves/nvme1n1", "block/nvme1n1/slaves", "block/dm-0/slaves/md0"})
        make(folder);
    find_bundles(hgx, root);
    std::string text;
    for (const bundle& each : hgx.bundles) text += each.name + ": " + text_of(each.parts) + "\n";
    expect_text(text, "bond0: enp41s0f0np0 ibp154s0\nbond0.100: enp41s0f0np0 ibp154s0\ndm-0: nvme1n1\nmd0: nvme1n1\n");
    cr_expect(storage_devices(hgx, "bond0.100").size() == 2 && storage_devices(hgx, "loop").empty());
    const plan made = need(make_plan(hgx, {.arena_bytes = gib, .storage = {"bond0.100"}}));
    cr_expect(made.storage[0].node == 0u && format_cpus(made.writers) == "0-223");
    cr_expect(
        made.storage[0].reason == "it is named as storage, and made up of 'enp41s0f0np0', 'ibp154s0' at nodes 0, 1",
        "%s", made.storage[0].reason.c_str());
    std::filesystem::remove_all(root);
}

// hwloc itself ends on such files.  Every seed gives the same file.
Test(topo_machine, damaged_xml_is_refused_or_read_and_never_the_end) {
    const char* values[] = {"4294967295", "0xffffffff,0xffffffff", "0xf...f", "-1", "", "0x0", "PU", "NUMANode",
                            "PCIDev"};
    size_t refused = 0;
    for (unsigned seed = 0; seed < 150; seed++) {
        std::mt19937 random(seed);
        std::string xml = xml_of(seed % 2 == 0 ? "cgroup" : "grace");
        for (unsigned count = 1 + random() % 3; count > 0; count--) {
            const size_t at = random() % xml.size();
            const size_t value = xml.find("=\"", at);
            if (random() % 3 == 0) xml.erase(at, 1 + random() % 60);
            else if (random() % 3 == 0) xml[at] = static_cast<char>(random());
            else if (value != std::string::npos && xml.find('"', value + 2) != std::string::npos)
                xml.replace(value + 2, xml.find('"', value + 2) - value - 2, values[random() % std::size(values)]);
        }
        const auto found = parse_machine(xml, "damaged");
        if (!found) refused++;
        else if (const auto made = make_plan(*found, {.arena_bytes = gib}))
            cr_expect(need(parse_plan(format_plan(*made))) == *made, "seed %u", seed);
    }
    cr_expect(refused > 10, "only %zu", refused);
}
