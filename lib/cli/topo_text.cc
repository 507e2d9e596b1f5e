// The machine and the plan as text: a box for each NUMA node.
#include "cli/topo.h"

#include "base/units.h"
#include "cli/table.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace varde::cli {

namespace {

constexpr size_t label_width = 12;
constexpr size_t width_max = 110;  // of what is in a box; CPU lists go on in the next line
constexpr size_t bar_width = 24;

std::string repeat(const char* what, size_t count) {
    std::string text;
    for (size_t index = 0; index < count; index++) text += what;
    return text;
}

std::string padded(const std::string& text, size_t columns) {
    return text + std::string(columns - std::min(columns, text_width(text)), ' ');
}

struct box {
    std::string title;
    std::vector<std::string> lines;
};

void add(box& to, const std::string& label, const std::string& text) {
    to.lines.push_back(padded(label, label_width) + text);
}

// A list that is too long for a line is broken behind a comma.
void add_cpus(box& to, const std::string& label, const topo::cpu_set& cpus, const std::string& remark = "") {
    if (cpus.none()) return;
    std::string list = topo::format_cpus(cpus);
    std::string name = label;
    constexpr size_t columns = width_max - label_width;
    while (list.size() > columns) {
        const size_t comma = list.rfind(',', columns - 1) + 1;
        add(to, name, list.substr(0, comma));
        list.erase(0, comma);
        name.clear();
    }
    add(to, name, remark.empty() ? list : list + "  " + remark);
}

// How wide the columns of the devices are, the same in all boxes.
struct columns {
    size_t names = 0;
    size_t pci = 0;
    size_t model = 0;
};

std::string names_of(const topo::device& what) { return fmt::format("{}", fmt::join(what.names, ", ")); }

columns columns_of(const topo::machine& what) {
    columns wide;
    for (const auto& each : what.devices) {
        wide.names = std::max(wide.names, text_width(names_of(each)));
        wide.pci = std::max(wide.pci, each.pci.size());
        wide.model = std::max(wide.model, text_width(short_model(each)));
    }
    return wide;
}

// What the plan, or the PCI tree, makes of the device.
std::string remark_on(const topo_view& view, const topo::device& what) {
    if (what.kind == topo::device_kind::gpu) {
        const auto node = topo::node_of_gpu(view.plan, what.pci);
        return node ? fmt::format("◀ slabs on node {}", *node) : "not the job's";
    }
    if (is_storage(view, what)) return "◀ storage";
    if (const topo::device* gpu = gpu_beside(view.machine, what)) return "beside " + device_label(view.machine, *gpu);
    return what.nodes.size() > 1 ? fmt::format("near nodes {}", fmt::join(what.nodes, ", ")) : "";
}

void add_devices(box& to, const topo_view& view, const std::vector<const topo::device*>& devices, columns wide) {
    for (const auto kind : {topo::device_kind::gpu, topo::device_kind::network, topo::device_kind::block}) {
        for (const topo::device* each : devices) {
            if (each->kind != kind) continue;
            const std::string label = kind == topo::device_kind::gpu       ? device_label(view.machine, *each)
                                      : kind == topo::device_kind::network ? "network"
                                                                           : "disk";
            add(to, label,
                padded(each->pci, wide.pci) + "  " + padded(names_of(*each), wide.names) + "  " +
                    padded(short_model(*each), wide.model) + "  " + remark_on(view, *each));
        }
    }
}

void add_memory(box& to, const topo_view& view, const topo::numa_node& node) {
    add(to, "memory", format_bytes(node.bytes) + (node.allowed ? "" : ", not allowed"));
    if (const topo::node_share* share = share_of(view.plan, node.index)) {
        const auto whole = static_cast<double>(std::max<uint64_t>(view.plan.arena_bytes, 1));
        const double part = static_cast<double>(share->bytes) / whole * static_cast<double>(bar_width);
        const auto full = static_cast<size_t>(std::lround(part));
        add(to, "arena",
            fmt::format("{}{}  {}: {}", repeat("█", full), repeat("░", bar_width - full), format_bytes(share->bytes),
                        share->reason));
    }
    for (const topo::numa_node* each : memory_beside(view.machine, node))
        add(to, "", memory_label(view.machine, *each) + ": never part of the arena");
}

box node_box(const topo_view& view, const topo::numa_node& node, columns wide) {
    box made{fmt::format("NUMA node {}", node.index), {}};
    add_cpus(made, "CPUs", node.cpus);
    if (view.wanted.cpus) add_cpus(made, "the job's", node.cpus & *view.wanted.cpus);
    add_cpus(made, "for system", node.cpus & view.wanted.system_cpus);
    add_cpus(made, "not allowed", node.cpus & ~view.machine.allowed);
    add_cpus(made, "writers", node.cpus & view.plan.writers, "◀");
    add_memory(made, view, node);
    add_devices(made, view, devices_of(view.machine, node.index), wide);
    return made;
}

std::string drawn(const std::vector<box>& boxes) {
    size_t widest = 0;
    for (const box& each : boxes) {
        widest = std::max(widest, text_width(each.title) + 2);
        for (const std::string& line : each.lines) widest = std::max(widest, text_width(line));
    }
    std::string text;
    for (const box& each : boxes) {
        text += "┌ " + each.title + " " + repeat("─", widest - text_width(each.title)) + "┐\n";
        for (const std::string& line : each.lines) text += "│ " + padded(line, widest) + " │\n";
        text += "└" + repeat("─", widest + 2) + "┘\n";
    }
    return text;
}

}  // namespace

std::string topo_text(const topo_view& what) {
    const columns wide = columns_of(what.machine);
    std::vector<box> boxes;
    for (const auto& each : what.machine.nodes)
        if (each.kind == topo::memory_kind::cpu) boxes.push_back(node_box(what, each, wide));
    if (const auto nowhere = devices_nowhere(what.machine); !nowhere.empty()) {
        boxes.push_back({"place not known", {}});
        add_devices(boxes.back(), what, nowhere, wide);
    }
    std::string text = what.machine.model.empty() ? "" : what.machine.model + ": ";
    text += machine_line(what.machine) + "\narena of " + format_bytes(what.plan.arena_bytes) + "\n\n" + drawn(boxes);
    for (const std::string& each : plan_words(what.plan)) text += each + "\n";
    return text;
}

}  // namespace varde::cli
