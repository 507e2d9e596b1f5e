// Reads the plain description out of a loaded topology.  Sizes, numbers and names may come from hostile XML.
#include "topo/topology.h"

#include "base/units.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <tuple>

namespace varde::topo {

namespace {

// PCI base class of displays and, 3D controllers being all of them, of processing accelerators.
constexpr unsigned class_display = 0x03;
constexpr unsigned class_accelerator = 0x12;
constexpr unsigned subclass_3d = 0x0302;
constexpr unsigned vendor_nvidia = 0x10de;
constexpr unsigned vendor_amd = 0x1002;

result<cpu_set> cpus_of(hwloc_const_bitmap_t from) {
    cpu_set cpus;
    if (from == nullptr || hwloc_bitmap_iszero(from) != 0) return cpus;
    const int last = hwloc_bitmap_last(from);
    if (last < 0 || static_cast<uint32_t>(last) >= cpus_max)
        return fail(code::damaged, "it has a CPU beyond " + std::to_string(cpus_max - 1));
    for (int cpu = hwloc_bitmap_first(from); cpu >= 0; cpu = hwloc_bitmap_next(from, cpu))
        cpus.set(static_cast<size_t>(cpu));
    return cpus;
}

std::string info_of(hwloc_obj_t object, const char* name) {
    const char* text = hwloc_obj_get_info_by_name(object, name);
    return text == nullptr ? "" : printable(text);
}

result<numa_node> read_node(hwloc_topology_t from, hwloc_obj_t object) {
    numa_node node;
    node.index = object->os_index;
    if (node.index >= nodes_max)
        return fail(code::damaged, "it has a NUMA node beyond " + std::to_string(nodes_max - 1));
    auto cpus = cpus_of(object->cpuset);
    if (!cpus) return cpus.error();
    node.cpus = *cpus;
    node.bytes = object->attr->numanode.local_memory;
    const auto allowed = hwloc_topology_get_allowed_nodeset(from);
    node.allowed = allowed != nullptr && hwloc_bitmap_isset(allowed, node.index) != 0;
    const std::string bus = info_of(object, "PCIBusID");
    if (const auto address = parse_pci_address(bus)) node.gpu = *address;
    const bool named = object->subtype != nullptr && std::string_view(object->subtype) == "GPUMemory";
    if (named || !node.gpu.empty()) node.kind = memory_kind::gpu;
    return node;
}

// hwloc gives memory without CPUs those of the nodes that are near it: which node they belong to is told by the order,
// because kernels number nodes with CPUs first.
result<void> read_nodes(hwloc_topology_t from, machine& to) {
    for (hwloc_obj_t object = nullptr;
         (object = hwloc_get_next_obj_by_type(from, HWLOC_OBJ_NUMANODE, object)) != nullptr;) {
        auto node = read_node(from, object);
        if (!node) return node.error();
        to.nodes.push_back(*std::move(node));
    }
    const auto by_index = [](const numa_node& a, const numa_node& b) { return a.index < b.index; };
    std::sort(to.nodes.begin(), to.nodes.end(), by_index);
    cpu_set taken;
    for (size_t at = 0; at < to.nodes.size(); at++) {
        numa_node& node = to.nodes[at];
        if (at > 0 && to.nodes[at - 1].index == node.index)
            return fail(code::damaged, "it has two NUMA nodes " + std::to_string(node.index));
        if (node.kind == memory_kind::gpu) continue;
        const cpu_set own = node.cpus & ~taken;
        if (own.none()) node.kind = memory_kind::other;
        else node.cpus = own;
        taken |= node.cpus;
    }
    if (taken.none()) return fail(code::damaged, "none of its NUMA nodes has a CPU");
    return {};
}

// Of CPUs, near the device; empty where that is all of several, because hwloc hangs what it cannot place at the top.
std::vector<uint32_t> nodes_near(hwloc_topology_t from, hwloc_obj_t device, const machine& in) {
    hwloc_obj* const place = hwloc_get_non_io_ancestor_obj(from, device);
    std::vector<uint32_t> near;
    size_t with_cpus = 0;
    for (const numa_node& each : in.nodes) {
        if (each.kind != memory_kind::cpu) continue;
        with_cpus++;
        if (place != nullptr && place->nodeset != nullptr && hwloc_bitmap_isset(place->nodeset, each.index) != 0)
            near.push_back(each.index);
    }
    return near.size() == with_cpus && with_cpus > 1 ? std::vector<uint32_t>{} : near;
}

std::string address_of(unsigned domain, unsigned bus) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%04x:%02x", domain & 0xFFFF, bus & 0xFF);
    return text.data();
}

std::vector<std::string> buses_above(hwloc_obj_t device) {
    std::vector<std::string> buses;
    for (hwloc_obj_t above = device->parent; above != nullptr && above->type == HWLOC_OBJ_BRIDGE; above = above->parent)
        if (above->attr->bridge.downstream_type == HWLOC_OBJ_BRIDGE_PCI)
            buses.push_back(address_of(above->attr->bridge.downstream.pci.domain,
                                       above->attr->bridge.downstream.pci.secondary_bus));
    std::reverse(buses.begin(), buses.end());
    return buses;
}

// The BMC's graphics are a display, too: of displays only those of vendors whose GPUs compute.
bool is_gpu(const decltype(hwloc_obj_attr_u::pcidev)& what, bool computes) {
    const unsigned base = what.class_id >> 8;
    if (computes || what.class_id == subclass_3d || base == class_accelerator) return true;
    return base == class_display && (what.vendor_id == vendor_nvidia || what.vendor_id == vendor_amd);
}

// What kind of device has this OS device below it; none: of no interest.
std::optional<device_kind> kind_of(hwloc_obj_t os_device) {
    switch (os_device->attr->osdev.type) {
    case HWLOC_OBJ_OSDEV_NETWORK:
    case HWLOC_OBJ_OSDEV_OPENFABRICS: return device_kind::network;
    case HWLOC_OBJ_OSDEV_BLOCK: return device_kind::block;
    case HWLOC_OBJ_OSDEV_COPROC: return device_kind::gpu;
    default: return std::nullopt;
    }
}

std::optional<device> read_pci_device(hwloc_topology_t from, hwloc_obj_t object, const machine& in) {
    device found;
    found.model = info_of(object, "PCIDevice");
    std::optional<device_kind> kind;
    bool computes = false;
    std::set<std::pair<int, std::string>> names;  // by kind: an interface's comes before that of its verbs
    for (hwloc_obj_t each = object->io_first_child; each != nullptr; each = each->next_sibling) {
        if (each->type != HWLOC_OBJ_OS_DEVICE) continue;
        const auto says = kind_of(each);
        computes = computes || says == device_kind::gpu;
        if (says) kind = kind ? kind : says;
        if (each->name != nullptr && is_device_name(each->name)) names.emplace(each->attr->osdev.type, each->name);
    }
    for (const auto& [type, name] : names) found.names.push_back(name);
    const auto& pci = object->attr->pcidev;
    if (is_gpu(pci, computes)) kind = device_kind::gpu;
    if (!kind) return std::nullopt;
    // A GPU without a driver has no name and is one all the same.
    if (found.names.empty() && *kind != device_kind::gpu) return std::nullopt;
    std::array<char, 32> end{};
    std::snprintf(end.data(), end.size(), ":%02x.%x", pci.dev & 0x1FU, pci.func & 7U);
    found.kind = *kind;
    found.pci = address_of(pci.domain, pci.bus) + end.data();
    found.nodes = nodes_near(from, object, in);
    found.buses = buses_above(object);
    return found;
}

void read_devices(hwloc_topology_t from, machine& to) {
    for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_pcidev(from, object)) != nullptr;)
        if (auto found = read_pci_device(from, object, to)) to.devices.push_back(*std::move(found));
    for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_osdev(from, object)) != nullptr;) {
        const auto kind = kind_of(object);
        const bool on_bus = object->parent != nullptr && object->parent->type == HWLOC_OBJ_PCI_DEVICE;
        if (on_bus || !kind || object->name == nullptr || !is_device_name(object->name)) continue;
        if (*kind == device_kind::gpu) continue;
        device found;
        found.kind = *kind;
        found.names = {object->name};
        found.nodes = nodes_near(from, object, to);
        to.devices.push_back(std::move(found));
    }
    std::sort(to.devices.begin(), to.devices.end(), [](const device& a, const device& b) {
        return std::tuple(a.pci.empty(), a.pci, a.names) < std::tuple(b.pci.empty(), b.pci, b.names);
    });
}

void read_latency(hwloc_topology_t from, machine& to) {
    unsigned count = 1;
    hwloc_distances_s* found = nullptr;
    if (hwloc_distances_get_by_name(from, "NUMALatency", &count, &found, 0) != 0 || found == nullptr) return;
    const size_t nodes = found->nbobjs;
    const auto place = [&](const numa_node& node) {
        size_t at = 0;
        while (at < nodes && (found->objs[at] == nullptr || found->objs[at]->os_index != node.index)) at++;
        return at;
    };
    std::vector<std::vector<uint64_t>> rows;
    for (const numa_node& one : to.nodes) {
        const size_t row = place(one);
        std::vector<uint64_t> values;
        // A node that the matrix leaves out is farther than any other.
        for (const numa_node& other : to.nodes) {
            const size_t column = place(other);
            values.push_back(row < nodes && column < nodes ? found->values[row * nodes + column] : UINT64_MAX);
        }
        rows.push_back(std::move(values));
    }
    to.latency = std::move(rows);
    hwloc_distances_release(from, found);
}

}  // namespace

result<machine> describe(hwloc_topology_t from) {
    machine found;
    found.model = info_of(hwloc_get_root_obj(from), "DMIProductName");
    auto allowed = cpus_of(hwloc_topology_get_allowed_cpuset(from));
    if (!allowed) return allowed.error();
    found.allowed = *allowed;
    const auto nodes = read_nodes(from, found);
    if (!nodes) return nodes.error();
    read_devices(from, found);
    read_latency(from, found);
    return found;
}

}  // namespace varde::topo
