// The pictures of `varde topo`, apart from looking at the machine, for tests.  Pure.
#pragma once

#include "topo/machine.h"
#include "topo/plan.h"

#include <nlohmann/json.hpp>
#include <string>

namespace varde::cli {

// A machine, what was asked of it, and the plan that came out.
struct topo_view {
    topo::machine machine;
    topo::request wanted;
    topo::plan plan;
};

// "8 GPUs": the machine in a line.
std::string machine_line(const topo::machine& what);

std::string topo_text(const topo_view& what);
std::string topo_svg(const topo_view& what);
nlohmann::ordered_json topo_json(const topo_view& what);

// ---- What the text and the SVG say alike.

// "ConnectX-7" of "MT2910 Family [ConnectX-7]": what people call it.
std::string short_model(const topo::device& what);

// "GPU 3", "ib0": what is written on a device.
std::string device_label(const topo::machine& in, const topo::device& what);

// The GPU behind whose PCI switch a device is; null: behind no GPU's.
const topo::device* gpu_beside(const topo::machine& in, const topo::device& what);

bool is_storage(const topo_view& view, const topo::device& what);
const topo::node_share* share_of(const topo::plan& in, uint32_t node);

// Of the machine, drawn in this node's frame: the devices whose first node it is.
std::vector<const topo::device*> devices_of(const topo::machine& in, uint32_t node);
std::vector<const topo::device*> devices_nowhere(const topo::machine& in);

// NUMA nodes whose memory is not of CPUs, and whose nearest CPUs are this node's.
std::vector<const topo::numa_node*> memory_beside(const topo::machine& in, const topo::numa_node& node);

// "96 GiB of GPU 2, node 20"
std::string memory_label(const topo::machine& in, const topo::numa_node& what);

// The reasons and notes of the plan, a sentence each.
std::vector<std::string> plan_words(const topo::plan& what);

}  // namespace varde::cli
