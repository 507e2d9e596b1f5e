// The machine and the plan as a picture for a report: a panel for each NUMA node, two in a row.
#include "cli/topo.h"

#include "base/units.h"
#include "cli/svg.h"
#include "cli/table.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <functional>
#include <span>

namespace varde::cli {

namespace {

constexpr double page_width = 1200;
constexpr double margin = 24;
constexpr double gap = 20;      // between panels
constexpr double padding = 16;  // inside a panel
constexpr double line_height = 17;
constexpr double cell = 11;  // of a CPU, its distance to the next in it
constexpr double bar_height = 20;
constexpr double box_height = 46;
constexpr double box_gap = 10;
constexpr double box_width_least = 120;  // eight in a panel as wide as the page, four in half of it

// Colours that are told apart by people who see few, and in grey.
constexpr std::string_view style_sheet =
    "text { font-family: 'DejaVu Sans', 'Liberation Sans', Helvetica, Arial, sans-serif; fill: #1f2933; }\n"
    ".title { font-size: 22px; font-weight: bold; }\n"
    ".head { font-size: 15px; font-weight: bold; }\n"
    ".words { font-size: 12px; }\n"
    ".small { font-size: 10.5px; fill: #52606d; }\n"
    ".small-right { font-size: 12px; text-anchor: end; fill: #52606d; }\n"
    ".name { font-size: 12px; font-weight: bold; }\n"
    ".tag { font-size: 10.5px; font-weight: bold; fill: #9c4a00; }\n"
    ".panel { fill: #f7f9fb; stroke: #9fb3c8; stroke-width: 1.2; rx: 8px; }\n"
    ".cpu { fill: #cbd5e0; }\n"
    ".cpu-job { fill: #4c8fd6; }\n"
    ".cpu-writer { fill: #f08c00; }\n"
    ".cpu-away { fill: #ffffff; stroke: #cbd5e0; stroke-width: 1; }\n"
    ".memory { fill: #e3e8ee; stroke: #9fb3c8; }\n"
    ".arena { fill: #2f9e63; }\n"
    ".memory-gpu { fill: #e9ddf5; stroke: #9d7ec4; }\n"
    ".gpu { fill: #e9ddf5; stroke: #7d5ba6; rx: 4px; }\n"
    ".gpu-idle { fill: #ffffff; stroke: #c9b8dd; stroke-dasharray: 4 3; rx: 4px; }\n"
    ".network { fill: #ffffff; stroke: #7b8794; rx: 4px; }\n"
    ".block { fill: #eef1f4; stroke: #7b8794; rx: 4px; }\n"
    ".storage { fill: #ffe8cc; stroke: #f08c00; stroke-width: 2; rx: 4px; }\n"
    ".link { stroke: #7d5ba6; stroke-width: 2; }\n";

// As much of a text as fits, at about six tenths of its size for a character.
std::string fitted(const std::string& text, double width, double size) {
    const auto most = static_cast<size_t>(width / (size * 0.6));
    return text.size() <= most || most < 2 ? text : text.substr(0, most - 1) + "…";
}

class panel {
public:
    panel(const topo_view& view, double width)
        : view_(view), width_(width), in_row_(static_cast<size_t>((inner() + box_gap) / (box_width_least + box_gap))) {}

    void head(const std::string& left, const std::string& right) {
        y_ += 8;
        canvas_.text(padding, y_ + 14, "head", left);
        canvas_.text(width_ - padding, y_ + 14, "small-right", right);
        y_ += 28;
    }

    void cpus(const topo::numa_node& node) {
        words(fmt::format("{} CPUs: {}", node.cpus.count(), topo::format_cpus(node.cpus)));
        const auto in_row = static_cast<size_t>(inner() / cell);
        size_t column = 0;
        for (size_t cpu = node.cpus._Find_first(); cpu < topo::cpus_max; cpu = node.cpus._Find_next(cpu), column++) {
            if (column == in_row) {
                column = 0;
                y_ += cell;
            }
            canvas_.rectangle(padding + static_cast<double>(column) * cell, y_, cell - 2, cell - 2, cpu_style(cpu));
        }
        y_ += cell + 8;
    }

    // The bar is the node's memory, its filled part the arena's share at the same scale, but never too thin to be seen.
    void memory(const topo::numa_node& node) {
        const topo::node_share* share = share_of(view_.plan, node.index);
        const double part = share == nullptr || node.bytes == 0
                                ? 0
                                : std::min(1.0, static_cast<double>(share->bytes) / static_cast<double>(node.bytes));
        canvas_.rectangle(padding, y_, inner(), bar_height, "memory");
        if (part > 0) canvas_.rectangle(padding, y_, std::max(3.0, part * inner()), bar_height, "arena");
        y_ += bar_height + 3;
        words(share == nullptr ? "no part of the arena"
                               : fmt::format("arena: {} here, {}", format_bytes(share->bytes), share->reason));
        for (const topo::numa_node* each : memory_beside(view_.machine, node)) {
            canvas_.rectangle(padding, y_, inner(), bar_height, "memory-gpu");
            canvas_.text(padding + 8, y_ + 14, "words",
                         memory_label(view_.machine, *each) + ": never part of the arena");
            y_ += bar_height + 8;
        }
    }

    // Rows of GPUs, each with the interfaces that share its switch below it, then everything else.
    void devices(const std::vector<const topo::device*>& all) {
        y_ += 4;
        std::vector<const topo::device*> gpus;
        std::vector<const topo::device*> rest;
        for (const topo::device* each : all) (each->kind == topo::device_kind::gpu ? gpus : rest).push_back(each);
        size_t column = 0;
        for (std::span<const topo::device* const> left(gpus); !left.empty();) {
            if (column > 0) next_row();
            const auto row = left.first(std::min(in_row_, left.size()));
            column = put_gpus(row, rest) ? 0 : row.size();
            left = left.subspan(row.size());
        }
        const auto is_block = [](const topo::device* each) { return each->kind == topo::device_kind::block; };
        std::stable_partition(rest.begin(), rest.end(), std::not_fn(is_block));
        for (const topo::device* each : rest) {
            if (column == in_row_) {
                next_row();
                column = 0;
            }
            put(*each, column++);
        }
        if (column > 0) next_row();
    }

    double height() const { return y_ + 6; }

    // Framed as high as the others of its row.
    void draw(svg_canvas& onto, double x, double y, double height) const {
        svg_canvas whole;
        whole.rectangle(0, 0, width_, height, "panel");
        whole.put(canvas_, 0, 0);
        onto.put(whole, x, y);
    }

private:
    double inner() const { return width_ - 2 * padding; }
    double box_width() const {
        return (inner() - static_cast<double>(in_row_ - 1) * box_gap) / static_cast<double>(in_row_);
    }
    double left_of(size_t column) const { return padding + static_cast<double>(column) * (box_width() + box_gap); }
    void next_row() { y_ += box_height + box_gap; }

    void words(const std::string& text) {
        canvas_.text(padding, y_ + 11, "words", fitted(text, inner(), 12));
        y_ += line_height + 2;
    }

    const char* cpu_style(size_t cpu) const {
        if (!view_.machine.allowed[cpu]) return "cpu-away";
        if (view_.plan.writers[cpu]) return "cpu-writer";
        return view_.wanted.cpus && (*view_.wanted.cpus)[cpu] ? "cpu-job" : "cpu";
    }

    // The first interface behind the GPU's switch; it is no longer among the rest.
    const topo::device* take_beside(const topo::device& gpu, std::vector<const topo::device*>& rest) const {
        const auto is_beside = [&](const topo::device* each) {
            return each->kind == topo::device_kind::network && topo::shared_buses(gpu, *each) >= 2;
        };
        const auto found = std::find_if(rest.begin(), rest.end(), is_beside);
        if (found == rest.end()) return nullptr;
        const topo::device* taken = *found;
        rest.erase(found);
        return taken;
    }

    // Whether there are interfaces below them, and with them a row that is full.
    bool put_gpus(std::span<const topo::device* const> gpus, std::vector<const topo::device*>& rest) {
        std::vector<const topo::device*> below;
        for (size_t column = 0; column < gpus.size(); column++) {
            put(*gpus[column], column);
            below.push_back(take_beside(*gpus[column], rest));
        }
        if (std::all_of(below.begin(), below.end(), [](const auto* each) { return each == nullptr; })) return false;
        next_row();
        for (size_t column = 0; column < below.size(); column++) {
            if (below[column] == nullptr) continue;
            const double middle = left_of(column) + box_width() / 2;
            canvas_.line(middle, y_ - box_gap, middle, y_, "link");
            put(*below[column], column);
        }
        next_row();
        return true;
    }

    const char* device_style(const topo::device& what) const {
        if (what.kind == topo::device_kind::gpu) return topo::node_of_gpu(view_.plan, what.pci) ? "gpu" : "gpu-idle";
        if (is_storage(view_, what)) return "storage";
        return what.kind == topo::device_kind::network ? "network" : "block";
    }

    void put(const topo::device& what, size_t column) {
        const double x = left_of(column);
        const double text_room = box_width() - 16;
        canvas_.begin_tip(fmt::format("{} {} {}", fmt::join(what.names, ", "), what.pci, what.model));
        canvas_.rectangle(x, y_, box_width(), box_height, device_style(what));
        canvas_.text(x + 8, y_ + 15, "name", fitted(device_label(view_.machine, what), text_room, 12));
        if (is_storage(view_, what)) canvas_.text(x + 8, y_ + 28, "tag", "checkpoints");
        else canvas_.text(x + 8, y_ + 28, "small", fitted(short_model(what), text_room, 10.5));
        canvas_.text(x + 8, y_ + 40, "small", what.pci);
        canvas_.end();
    }

    const topo_view& view_;
    double width_;
    size_t in_row_;  // boxes
    double y_ = 0;
    svg_canvas canvas_;
};

struct key {
    const char* style;
    const char* words;
};
constexpr std::array<key, 6> keys{{{"cpu-writer", "CPUs of the writers"},
                                   {"cpu-job", "CPUs of the job"},
                                   {"cpu", "other CPUs"},
                                   {"cpu-away", "CPUs that are not allowed"},
                                   {"arena", "the arena, in its node's memory"},
                                   {"storage", "carries checkpoints"}}};

void draw_keys(svg_canvas& onto, double y) {
    double x = margin;
    for (const key& each : keys) {
        onto.rectangle(x, y, 12, 12, each.style);
        onto.text(x + 18, y + 10, "words", each.words);
        x += 18 + 7 * static_cast<double>(std::string_view(each.words).size()) + 24;
    }
}

std::vector<panel> panels_of(const topo_view& what, double width) {
    std::vector<panel> made;
    for (const auto& each : what.machine.nodes) {
        if (each.kind != topo::memory_kind::cpu) continue;
        panel next(what, width);
        next.head(fmt::format("NUMA node {}", each.index),
                  format_bytes(each.bytes) + (each.allowed ? "" : ", not allowed"));
        next.cpus(each);
        next.memory(each);
        next.devices(devices_of(what.machine, each.index));
        made.push_back(std::move(next));
    }
    if (const auto nowhere = devices_nowhere(what.machine); !nowhere.empty()) {
        panel next(what, width);
        next.head("Place not known", "");
        next.devices(nowhere);
        made.push_back(std::move(next));
    }
    return made;
}

}  // namespace

std::string topo_svg(const topo_view& what) {
    svg_canvas page;
    double y = margin;
    page.text(margin, y + 20, "title", what.machine.model.empty() ? "This machine" : what.machine.model);
    page.text(margin, y + 42, "words",
              machine_line(what.machine) + "; arena of " + format_bytes(what.plan.arena_bytes));
    draw_keys(page, y + 56);
    y += 86;
    const size_t columns = what.machine.nodes.size() > 1 ? 2 : 1;
    const double width =
        (page_width - 2 * margin - static_cast<double>(columns - 1) * gap) / static_cast<double>(columns);
    const std::vector<panel> panels = panels_of(what, width);
    for (size_t first = 0; first < panels.size(); first += columns) {
        const size_t end = std::min(panels.size(), first + columns);
        double height = 0;
        for (size_t at = first; at < end; at++) height = std::max(height, panels[at].height());
        for (size_t at = first; at < end; at++)
            panels[at].draw(page, margin + static_cast<double>(at - first) * (width + gap), y, height);
        y += height + gap;
    }
    for (const std::string& each : plan_words(what.plan)) {
        page.text(margin, y + 10, "words", fitted(each, page_width - 2 * margin, 12));
        y += line_height;
    }
    return page.picture(page_width, y + margin, style_sheet);
}

}  // namespace varde::cli
