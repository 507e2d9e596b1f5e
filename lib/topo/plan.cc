// Decides: GPUs first, then the arena's shares, the storage device, and the writers near it.
#include "topo/plan.h"

#include "base/units.h"
#include "topo/placing.h"
#include "topo/shares.h"

#include <algorithm>

namespace varde::topo {

namespace {

// The last step of whole pages leaves less than one, which goes to the last node that has any.
void divide(plan& to, const request& wanted, const std::vector<uint64_t>& weights) {
    const std::vector<uint64_t> pages = split(wanted.arena_bytes / wanted.page_bytes, weights);
    size_t last = 0;
    for (size_t at = 0; at < pages.size(); at++) {
        to.shares[at].bytes = pages[at] * wanted.page_bytes;
        if (pages[at] != 0) last = at;
    }
    to.shares[last].bytes += wanted.arena_bytes % wanted.page_bytes;
}

void note_tight_nodes(plan& to, const machine& on) {
    for (const node_share& each : to.shares)
        if (const numa_node* node = find_node(on, each.node); node != nullptr && each.bytes > node->bytes)
            to.notes.push_back("node " + std::to_string(each.node) + " has only " + format_bytes(node->bytes) +
                               ": its share does not fit there");
}

std::string counted(uint64_t count, bool of_the_job, uint64_t all, const std::string& things) {
    return (count == 0 ? "none" : std::to_string(count)) + (of_the_job ? " of the job's " : " of ") +
           std::to_string(all) + " " + things;
}

void share_by_gpus(plan& to, const request& wanted) {
    std::vector<uint64_t> weights(to.shares.size(), 0);
    for (const gpu_place& each : to.gpus)
        for (size_t at = 0; at < weights.size(); at++) weights[at] += to.shares[at].node == each.node ? 1U : 0U;
    divide(to, wanted, weights);
    for (size_t at = 0; at < weights.size(); at++)
        to.shares[at].reason = counted(weights[at], wanted.gpus.has_value(), to.gpus.size(), "GPUs");
}

// The job's CPUs, or where they are not known those that may be used; by ranks where their number is known, because
// whole ranks are what is placed.
void share_by_cpus(plan& to, const machine& on, const request& wanted) {
    const bool known = wanted.cpus && (*wanted.cpus & on.allowed).any();
    const cpu_set cpus = known ? *wanted.cpus : on.allowed;
    const std::string whose = known ? "the job's CPUs" : "the CPUs that may be used";
    std::vector<uint64_t> weights;
    uint64_t sum = 0;
    for (const node_share& each : to.shares) {
        weights.push_back((each.cpus & cpus).count());
        sum += weights.back();
    }
    const bool by_ranks = wanted.ranks && *wanted.ranks > 0;
    if (by_ranks) weights = split(*wanted.ranks, weights);
    divide(to, wanted, weights);
    for (size_t at = 0; at < weights.size(); at++)
        to.shares[at].reason = by_ranks ? counted(weights[at], true, *wanted.ranks, "ranks, spread over " + whose)
                                        : counted(weights[at], known, sum, known ? "CPUs" : "CPUs that may be used");
}

std::string names_of(const std::vector<storage_place>& storage) {
    std::string text;
    for (const storage_place& each : storage) text += (text.empty() ? "'" : ", '") + each.name + "'";
    return text;
}

cpu_set cpus_near_storage(const machine& on, const plan& with) {
    cpu_set near;
    for (const storage_place& each : with.storage)
        for (const device* part : storage_devices(on, each.name))
            for (const uint32_t index : part->nodes)
                if (const numa_node* node = find_node(on, index)) near |= node->cpus;
    return near;
}

// The first of these choices that has a CPU.
void choose_writers(plan& to, const machine& on, const request& wanted) {
    const cpu_set near = cpus_near_storage(on, to) & on.allowed;
    const cpu_set system = wanted.system_cpus & on.allowed;
    const cpu_set free = wanted.cpus ? on.allowed & ~*wanted.cpus : cpu_set{};
    const std::string device = names_of(to.storage);
    const std::string far = near.any()           ? "none of them is near " + device
                            : to.storage.empty() ? "the storage device is not known"
                                                 : "no CPU that may be used is known to be near " + device;
    const std::string whose = wanted.cpus ? "all of them are the job's" : "the job's are not known";
    const std::pair<cpu_set, std::string> choices[] = {
        {system & near, "set aside for the system, near " + device},
        {system, "set aside for the system; " + far},
        {near & free, "near " + device + ", not the job's"},
        {near, "near " + device + "; " + whose},
        {free, "not the job's; " + far},
        {on.allowed, "all that may be used; " + far + "; " + whose},
    };
    for (const auto& [cpus, reason] : choices) {
        to.writers = cpus;
        to.writers_reason = reason;
        if (cpus.any()) return;
    }
}

}  // namespace

result<plan> make_plan(const machine& on, const request& wanted) {
    if (on.allowed.none()) return fail(code::invalid, "couldn't plan: no CPU of this machine may be used");
    if (wanted.page_bytes == 0) return fail(code::internal, "couldn't plan: a page has no bytes");
    plan made;
    made.arena_bytes = wanted.arena_bytes;
    made.shares = usable_memory(on);
    if (made.shares.empty())
        return fail(code::invalid, "couldn't plan: no NUMA node with CPUs has memory that may be used");
    if (wanted.cpus && (*wanted.cpus & on.allowed).none())
        made.notes.push_back("none of the job's CPUs may be used here: they are left out of account");
    place_gpus(made, on, wanted);
    if (made.gpus.empty()) share_by_cpus(made, on, wanted);
    else share_by_gpus(made, wanted);
    note_tight_nodes(made, on);
    place_storage(made, on, wanted);
    choose_writers(made, on, wanted);
    return made;
}

std::optional<uint32_t> node_of_gpu(const plan& in, std::string_view pci) {
    const auto address = parse_pci_address(pci);
    for (const gpu_place& each : in.gpus)
        if (address && each.pci == *address) return each.node;
    return std::nullopt;
}

std::optional<uint32_t> node_of_cpus(const plan& in, const cpu_set& cpus) {
    std::optional<uint32_t> found;
    size_t most = 0;
    for (const node_share& each : in.shares) {
        const size_t count = (each.cpus & cpus).count();
        if (count > most) found = each.node;
        most = std::max(most, count);
    }
    return found;
}

}  // namespace varde::topo
