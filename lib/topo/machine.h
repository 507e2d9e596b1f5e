// A plain description of a machine, read out of an hwloc topology: where its CPUs, memory, GPUs, network interfaces and
// disks are.  The plan (plan.h) is made from it, and tests inject machines that they don't have.
//
// Numbers and names are the kernel's.  Everything is in one order (nodes by index, devices by PCI address), so the same
// machine gives the same description.  No globals; any thread, but hwloc reads the environment while it loads.
#pragma once

#include "base/result.h"
#include "topo/cpu_set.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace varde::topo {

constexpr uint32_t nodes_max = 1024;            // NUMA nodes: the most that the kernel can be built for
constexpr uint32_t device_name_bytes_max = 64;  // interfaces have 15, disks 31

enum class memory_kind : uint8_t {
    cpu,    // main memory, with CPUs of its own
    gpu,    // of a GPU, as on Grace-Hopper; a slab there would take the memory that training computes in
    other,  // without CPUs: HBM, CXL, persistent memory, or of a GPU whose driver does not say so
};

struct numa_node {
    uint32_t index = 0;
    memory_kind kind = memory_kind::cpu;
    uint64_t bytes = 0;
    cpu_set cpus{};       // near it; no two nodes of kind `cpu` share one
    bool allowed = true;  // memory may be put there: the cgroup does not forbid it
    std::string gpu{};    // PCI address of the GPU whose memory it is; empty: of none, or not known

    bool operator==(const numa_node&) const = default;
};

enum class device_kind : uint8_t { gpu, network, block };

struct device {
    device_kind kind = device_kind::gpu;
    std::string pci{};                 // "0000:1b:00.0"; empty: on no PCI bus
    std::vector<std::string> names{};  // "ib0" and "mlx5_0"; "nvme0n1"; of a GPU what its drivers call it, if loaded
    std::string model{};               // as the PCI database knows it; may be empty
    std::vector<uint32_t> nodes{};     // of kind `cpu`, near it: one, or those of its socket; empty: not known
    std::vector<std::string> buses{};  // from the host bridge ("0000:15") down to its own; empty: not known

    bool operator==(const device&) const = default;
};

// An interface or a disk that is made up of devices, as a bond is.
struct bundle {
    std::string name;
    std::vector<std::string> parts;  // names of devices, sorted; at least one

    bool operator==(const bundle&) const = default;
};

struct machine {
    std::string model;             // as the firmware calls it; may be empty
    std::vector<numa_node> nodes;  // by index
    cpu_set allowed;               // CPUs that may be used: those that a cgroup has taken away are not among them
    std::vector<device> devices;   // by PCI address, those on no bus last
    std::vector<bundle> bundles;   // of this machine; XML knows none
    std::vector<std::vector<uint64_t>> latency;  // [from][to], in the order of `nodes`; empty: not known

    bool operator==(const machine&) const = default;
};

// Names of GPUs from the drivers' own libraries (NVML, CUDA, ...) cost a start of the driver, up to seconds: not in
// a prolog.
enum class ask_drivers : bool { no, yes };

// This machine.  Containers may hide parts of it; what is left is described.
result<machine> load_machine(ask_drivers ask = ask_drivers::no);

// A machine from hwloc's XML (`lstopo FILE.xml`), which may be anybody's.  damaged: it is none, or one that no machine
// can have; not_found, io.
result<machine> load_machine_file(const std::string& path);
result<machine> parse_machine(std::string_view xml, const std::string& shown);

// "0000:1b:00.0" from the spellings that are in use: "1B:00.0", "00000000:1B:00.0" (NVML).
std::optional<std::string> parse_pci_address(std::string_view text);

// The GPUs in the order of their PCI addresses.
std::vector<const device*> gpus_of(const machine& from);

// Its number as Slurm gives it to jobs: of the device file (/dev/nvidia3), which need not follow the PCI addresses;
// where that is not known, its place in their order, as nvidia-smi numbers.
size_t gpu_number(const machine& in, const device& gpu);

// The GPU of this number, PCI address or name; the interface or disk of this name.  Null where there is none.
const device* find_gpu(const machine& in, std::string_view text);
const device* find_device(const machine& in, std::string_view name);

// The interface or disk of this name, or those that make it up; empty where there is none.
std::vector<const device*> storage_devices(const machine& in, std::string_view name);

// 1 to device_name_bytes_max printable bytes without spaces, as the plan's file can hold; the kernel allows others, but
// nobody gives them.
bool is_device_name(std::string_view text);

const numa_node* find_node(const machine& in, uint32_t index);

// How near two devices are on the PCI tree: the buses that both are below. 0: they have different host bridges; 1: they
// share the host bridge alone; more: a switch.
size_t shared_buses(const device& one, const device& other);

}  // namespace varde::topo
