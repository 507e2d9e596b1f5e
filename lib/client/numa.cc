// get_mempolicy(2) tells the node of a page, sysfs the node's CPUs: no library is needed for two questions.
#include "client/numa.h"

#include "base/handle.h"
#include "base/limits.h"
#include "base/units.h"

#include <array>
#include <cctype>
#include <cerrno>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace varde::client {

namespace {

std::optional<int> node_of(const void* address) {
    int node = -1;
    if (::syscall(SYS_get_mempolicy, &node, nullptr, 0UL, address, MPOL_F_NODE | MPOL_F_ADDR) != 0 || node < 0)
        return std::nullopt;
    return node;
}

// Empty where it cannot be read.
std::string line_of(const std::string& path) {
    const unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, 4096> text{};
    const ssize_t length = file ? ::read(file.get(), text.data(), text.size()) : -1;
    if (length <= 0) return {};
    std::string line(text.data(), static_cast<size_t>(length));
    if (line.ends_with('\n')) line.pop_back();
    return line;
}

std::optional<cpu_set_t> cpus_of(int node, const std::string& root) {
    const std::string list = line_of(root + "/sys/devices/system/node/node" + std::to_string(node) + "/cpulist");
    return list.empty() ? std::nullopt : parse_cpu_list(list);
}

}  // namespace

std::optional<cpu_set_t> parse_cpu_list(std::string_view text) {
    cpu_set_t found;
    CPU_ZERO(&found);
    while (!text.empty()) {
        const std::string_view part = text.substr(0, text.find(','));
        text.remove_prefix(std::min(part.size() + 1, text.size()));
        const size_t dash = part.find('-');
        const auto first = parse_number(part.substr(0, dash), CPU_SETSIZE - 1);
        const auto last = dash == std::string_view::npos ? first : parse_number(part.substr(dash + 1), CPU_SETSIZE - 1);
        if (!first || !last || *last < *first) return std::nullopt;
        for (uint64_t cpu = *first; cpu <= *last; cpu++) CPU_SET(cpu, &found);
    }
    return found;
}

std::optional<int> numa_node_of_pci(std::string bus_id, const std::string& root) {
    for (char& each : bus_id) each = static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
    if (bus_id.empty() || bus_id.find_first_not_of("0123456789abcdef:.") != std::string::npos) return std::nullopt;
    const auto node = parse_number(line_of(root + "/sys/bus/pci/devices/" + bus_id + "/numa_node"), INT32_MAX);
    return node ? std::optional<int>(static_cast<int>(*node)) : std::nullopt;
}

std::optional<int> own_numa_node(const std::string& root) {
    cpu_set_t allowed;
    if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return std::nullopt;
    for (int node = 0; node < static_cast<int>(limits::numa_nodes_max); node++) {
        const auto near = cpus_of(node, root);
        if (!near) continue;  // numbers may have gaps, and a node may have no CPU
        cpu_set_t both;
        CPU_AND(&both, &*near, &allowed);
        if (CPU_COUNT(&both) == 0) continue;
        return CPU_EQUAL(&both, &allowed) ? std::optional<int>(node) : std::nullopt;
    }
    return std::nullopt;
}

std::optional<cpu_set_t> cpus_near(const void* address, const std::string& root) {
    const auto node = node_of(address);
    if (!node) return std::nullopt;
    const auto near = cpus_of(*node, root);
    cpu_set_t allowed;
    if (!near || ::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return std::nullopt;
    cpu_set_t both;
    CPU_AND(&both, &*near, &allowed);
    if (CPU_COUNT(&both) == 0 || CPU_EQUAL(&both, &allowed)) return std::nullopt;
    return both;
}

}  // namespace varde::client
