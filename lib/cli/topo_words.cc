// What the pictures of a machine say in words, in text and SVG alike.
#include "cli/topo.h"

#include "base/units.h"

#include <algorithm>
#include <fmt/format.h>

namespace varde::cli {

namespace {

std::string plural(size_t count, const std::string& thing) {
    return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

}  // namespace

std::string machine_line(const topo::machine& what) {
    topo::cpu_set cpus = what.allowed;
    uint64_t bytes = 0;
    size_t nodes = 0;
    for (const auto& each : what.nodes) {
        if (each.kind != topo::memory_kind::cpu) continue;
        cpus |= each.cpus;
        bytes += each.bytes;
        nodes++;
    }
    const auto count = [&](topo::device_kind kind) {
        const auto is_kind = [&](const topo::device& each) { return each.kind == kind; };
        return static_cast<size_t>(std::count_if(what.devices.begin(), what.devices.end(), is_kind));
    };
    std::string text = plural(cpus.count(), "CPU");
    if (const size_t away = (cpus & ~what.allowed).count(); away != 0) text += fmt::format(" ({} not allowed)", away);
    return text + fmt::format(", {} in {}, {}, {}, {}", format_bytes(bytes), plural(nodes, "NUMA node"),
                              plural(count(topo::device_kind::gpu), "GPU"),
                              plural(count(topo::device_kind::network), "network interface"),
                              plural(count(topo::device_kind::block), "disk"));
}

std::string short_model(const topo::device& what) {
    const size_t open = what.model.find('[');
    const size_t close = what.model.rfind(']');
    if (open == std::string::npos || close == std::string::npos || close < open + 2) return what.model;
    return what.model.substr(open + 1, close - open - 1);
}

std::string device_label(const topo::machine& in, const topo::device& what) {
    if (what.kind != topo::device_kind::gpu) return what.names.empty() ? what.pci : what.names.front();
    return "GPU " + std::to_string(topo::gpu_number(in, what));
}

const topo::device* gpu_beside(const topo::machine& in, const topo::device& what) {
    for (const topo::device* gpu : topo::gpus_of(in))
        if (what.kind != topo::device_kind::gpu && topo::shared_buses(*gpu, what) >= 2) return gpu;
    return nullptr;
}

bool is_storage(const topo_view& view, const topo::device& what) {
    const auto is_it = [&](const topo::storage_place& each) {
        const auto parts = topo::storage_devices(view.machine, each.name);
        return std::find(parts.begin(), parts.end(), &what) != parts.end();
    };
    return std::any_of(view.plan.storage.begin(), view.plan.storage.end(), is_it);
}

const topo::node_share* share_of(const topo::plan& in, uint32_t node) {
    for (const auto& each : in.shares)
        if (each.node == node) return &each;
    return nullptr;
}

std::vector<const topo::device*> devices_of(const topo::machine& in, uint32_t node) {
    std::vector<const topo::device*> found;
    for (const auto& each : in.devices)
        if (!each.nodes.empty() && each.nodes.front() == node) found.push_back(&each);
    return found;
}

std::vector<const topo::device*> devices_nowhere(const topo::machine& in) {
    std::vector<const topo::device*> found;
    for (const auto& each : in.devices)
        if (each.nodes.empty()) found.push_back(&each);
    return found;
}

std::vector<const topo::numa_node*> memory_beside(const topo::machine& in, const topo::numa_node& node) {
    std::vector<const topo::numa_node*> found;
    const auto home = [&](const topo::numa_node& memory) {
        for (const auto& each : in.nodes)
            if (each.kind == topo::memory_kind::cpu && (each.cpus & memory.cpus).any()) return each.index;
        return in.nodes.front().index;
    };
    for (const auto& each : in.nodes)
        if (each.kind != topo::memory_kind::cpu && home(each) == node.index) found.push_back(&each);
    return found;
}

std::string memory_label(const topo::machine& in, const topo::numa_node& what) {
    std::string whose = what.kind == topo::memory_kind::gpu ? "of a GPU" : "without CPUs";
    if (const topo::device* gpu = topo::find_gpu(in, what.gpu)) whose = "of " + device_label(in, *gpu);
    return fmt::format("{} {}, node {}", format_bytes(what.bytes), whose, what.index);
}

std::vector<std::string> plan_words(const topo::plan& what) {
    std::vector<std::string> words;
    for (const auto& each : what.storage) words.push_back(fmt::format("storage {}: {}", each.name, each.reason));
    words.push_back(fmt::format("writers: {}", what.writers_reason));
    for (const std::string& each : what.notes) words.push_back("note: " + each);
    return words;
}

}  // namespace varde::cli
