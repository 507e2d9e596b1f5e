// Machine and plan for programs.
#include "cli/topo.h"

namespace varde::cli {

namespace {

using json = nlohmann::ordered_json;

const char* kind_name(topo::memory_kind what) {
    switch (what) {
    case topo::memory_kind::cpu: return "cpu";
    case topo::memory_kind::gpu: return "gpu";
    case topo::memory_kind::other: return "other";
    }
    return "unknown";
}

const char* kind_name(topo::device_kind what) {
    switch (what) {
    case topo::device_kind::gpu: return "gpu";
    case topo::device_kind::network: return "network";
    case topo::device_kind::block: return "block";
    }
    return "unknown";
}

json machine_json(const topo::machine& what) {
    auto nodes = json::array();
    for (const auto& each : what.nodes)
        nodes.push_back({{"index", each.index},
                         {"kind", kind_name(each.kind)},
                         {"size_bytes", each.bytes},
                         {"cpus", topo::format_cpus(each.cpus)},
                         {"allowed", each.allowed},
                         {"gpu", each.gpu}});
    auto devices = json::array();
    for (const auto& each : what.devices)
        devices.push_back({{"kind", kind_name(each.kind)},
                           {"pci", each.pci},
                           {"names", each.names},
                           {"model", each.model},
                           {"nodes", each.nodes}});
    auto bundles = json::array();
    for (const auto& each : what.bundles) bundles.push_back({{"name", each.name}, {"parts", each.parts}});
    return {{"model", what.model},
            {"allowed_cpus", topo::format_cpus(what.allowed)},
            {"nodes", nodes},
            {"devices", devices},
            {"bundles", bundles}};
}

json plan_json(const topo::plan& what) {
    auto nodes = json::array();
    for (const auto& each : what.shares)
        nodes.push_back({{"node", each.node},
                         {"arena_bytes", each.bytes},
                         {"cpus", topo::format_cpus(each.cpus)},
                         {"reason", each.reason}});
    auto gpus = json::array();
    for (const auto& each : what.gpus)
        gpus.push_back({{"pci", each.pci}, {"node", each.node}, {"reason", each.reason}});
    auto storage = json::array();
    for (const auto& each : what.storage)
        storage.push_back(
            {{"name", each.name}, {"node", each.node ? json(*each.node) : json(nullptr)}, {"reason", each.reason}});
    return {{"arena_bytes", what.arena_bytes},
            {"nodes", nodes},
            {"gpus", gpus},
            {"storage", storage},
            {"writers", {{"cpus", topo::format_cpus(what.writers)}, {"reason", what.writers_reason}}},
            {"notes", what.notes}};
}

}  // namespace

json topo_json(const topo_view& what) {
    return {{"machine", machine_json(what.machine)}, {"plan", plan_json(what.plan)}};
}

}  // namespace varde::cli
