// Where memory, GPUs and storage devices are, as far as the machine says so.
#include "topo/placing.h"

#include "base/units.h"

#include <algorithm>
#include <map>
#include <set>

namespace varde::topo {

namespace {

bool is_usable(const numa_node& node) { return node.kind == memory_kind::cpu && node.allowed && node.bytes > 0; }

// Position in on.nodes of the usable node that is nearest to the one at `from`; ties and no distances: the lowest.
// There is one.
size_t nearest_usable(const machine& on, size_t from) {
    const auto distance = [&](size_t to) { return on.latency.empty() ? 0 : on.latency[from][to]; };
    size_t best = on.nodes.size();
    for (size_t to = 0; to < on.nodes.size(); to++)
        if (is_usable(on.nodes[to]) && (best == on.nodes.size() || distance(to) < distance(best))) best = to;
    return best;
}

// The node that serves this one's CPUs and devices: itself where it is usable.
uint32_t serving(const machine& on, uint32_t index) {
    size_t at = 0;
    while (on.nodes[at].index != index) at++;
    return is_usable(on.nodes[at]) ? index : on.nodes[nearest_usable(on, at)].index;
}

std::string list_of(const std::vector<uint32_t>& nodes) {
    std::string text;
    for (const uint32_t each : nodes) text += (text.empty() ? "" : ", ") + std::to_string(each);
    return text;
}

// The GPUs that the plan is for, each once; what is not there is noted.
std::vector<const device*> wanted_gpus(const machine& on, const request& wanted, plan& to) {
    if (!wanted.gpus) return gpus_of(on);
    std::set<const device*> chosen;
    for (const std::string& name : *wanted.gpus) {
        const device* found = find_gpu(on, name);
        if (found != nullptr) chosen.insert(found);
        else to.notes.push_back("there is no GPU '" + printable(name) + "' here: it is left out of account");
    }
    return {chosen.begin(), chosen.end()};  // in the order of on.devices, being pointers into it
}

// Nodes that may hold a GPU's slabs, and why these.
struct candidates {
    std::vector<uint32_t> nodes;
    std::string reason;
};

candidates near_gpu(const machine& on, const request& wanted, const plan& with, const device& gpu) {
    candidates found;
    for (const uint32_t each : gpu.nodes) {
        const uint32_t node = serving(on, each);
        if (std::find(found.nodes.begin(), found.nodes.end(), node) == found.nodes.end()) found.nodes.push_back(node);
    }
    const std::string at = "it is at node " + list_of(gpu.nodes);
    if (found.nodes.size() == 1 && found.nodes == gpu.nodes) return {found.nodes, at};
    if (found.nodes.size() == 1)
        return {found.nodes, at + ", where no memory may be used; node " + list_of(found.nodes) + " is the nearest"};
    if (!found.nodes.empty()) return {found.nodes, "it is near nodes " + list_of(gpu.nodes) + ", of which this has"};
    for (const node_share& each : with.shares)
        if (wanted.cpus && (each.cpus & *wanted.cpus & on.allowed).any()) found.nodes.push_back(each.node);
    if (found.nodes.size() == 1)
        return {found.nodes, "its place is not known; node " + list_of(found.nodes) + " has the job's CPUs"};
    if (!found.nodes.empty()) return {found.nodes, "its place is not known; of the nodes with the job's CPUs this has"};
    for (const node_share& each : with.shares) found.nodes.push_back(each.node);
    return {found.nodes, "its place is not known; of all nodes this has"};
}

storage_place named_storage(const machine& on, const std::string& name) {
    const std::string named = "it is named as storage";
    const auto parts = storage_devices(on, name);
    if (parts.empty()) return {name, std::nullopt, named + "; there is no such device here"};
    std::set<uint32_t> nodes;
    for (const device* each : parts) nodes.insert(each->nodes.begin(), each->nodes.end());
    if (nodes.empty()) return {name, std::nullopt, named + "; its place is not known"};
    std::string at =
        std::string(nodes.size() == 1 ? " at node " : " at nodes ") + list_of({nodes.begin(), nodes.end()});
    // A bond is only where its interfaces are.
    const bool made_up = find_device(on, name) == nullptr;
    std::string names;
    for (const device* each : parts) names += (names.empty() ? "'" : ", '") + each->names.front() + "'";
    return {name, *nodes.begin(), named + (made_up ? ", and made up of " + names + at : ", and" + at)};
}

// The network interfaces that are not a GPU's own: on nodes made for training each GPU has one behind its switch.
std::vector<const device*> possible_interfaces(const machine& on) {
    std::vector<const device*> found;
    const auto gpus = gpus_of(on);
    for (const device& each : on.devices) {
        const auto is_beside = [&](const device* gpu) { return shared_buses(each, *gpu) >= 2; };
        if (each.kind == device_kind::network && std::none_of(gpus.begin(), gpus.end(), is_beside))
            found.push_back(&each);
    }
    return found;
}

}  // namespace

std::vector<node_share> usable_memory(const machine& on) {
    std::map<uint32_t, node_share> shares;
    for (const numa_node& each : on.nodes)
        if (is_usable(each)) shares[each.index].node = each.index;
    if (shares.empty()) return {};
    for (const numa_node& each : on.nodes)
        if (each.kind == memory_kind::cpu) shares[serving(on, each.index)].cpus |= each.cpus;
    std::vector<node_share> list;
    for (auto& [index, share] : shares) list.push_back(std::move(share));
    return list;
}

void place_gpus(plan& to, const machine& on, const request& wanted) {
    const auto gpus = wanted_gpus(on, wanted, to);
    std::map<uint32_t, size_t> count;
    // Those with one node to go to first: the others fill up.
    for (const bool sure : {true, false}) {
        for (const device* gpu : gpus) {
            candidates near = near_gpu(on, wanted, to, *gpu);
            if ((near.nodes.size() == 1) != sure) continue;
            const auto fewer = [&](uint32_t a, uint32_t b) { return count[a] < count[b]; };
            const uint32_t node = *std::min_element(near.nodes.begin(), near.nodes.end(), fewer);
            count[node]++;
            to.gpus.push_back({gpu->pci, node, near.reason + (sure ? "" : " the fewest GPUs so far")});
        }
    }
    std::sort(to.gpus.begin(), to.gpus.end(), [](const auto& a, const auto& b) { return a.pci < b.pci; });
}

void place_storage(plan& to, const machine& on, const request& wanted) {
    for (const std::string& name : wanted.storage) {
        const auto is_same = [&](const storage_place& each) { return each.name == name; };
        if (std::any_of(to.storage.begin(), to.storage.end(), is_same)) continue;
        if (is_device_name(name)) to.storage.push_back(named_storage(on, name));
        else to.notes.push_back("'" + printable(name) + "' is no name of a device: it is left out of account");
    }
    if (!to.storage.empty()) return;
    const auto possible = possible_interfaces(on);
    if (possible.size() != 1) {
        to.notes.push_back("no storage device is named, and " +
                           (possible.empty() ? "no interface" : std::to_string(possible.size()) + " interfaces") +
                           " could be it: writers may be far from it");
        return;
    }
    const device& only = *possible.front();
    const auto is_network = [](const device& each) { return each.kind == device_kind::network; };
    const bool alone = std::count_if(on.devices.begin(), on.devices.end(), is_network) == 1;
    std::string reason = alone ? "it is the only interface" : "every other interface is behind the switch of a GPU";
    reason += only.nodes.empty() ? "; its place is not known" : "; it is at node " + list_of(only.nodes);
    const auto node = only.nodes.empty() ? std::nullopt : std::optional(only.nodes.front());
    to.storage.push_back({only.names.front(), node, reason});
}

}  // namespace varde::topo
