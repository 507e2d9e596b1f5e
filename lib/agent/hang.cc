// The verdict on a standstill.
#include "agent/hang.h"

#include <algorithm>

namespace varde::agent {

using store::lull;
using store::phase;

namespace {

// A rank that waits for another uses nothing, one that computes (or spins until the network has news) all it gets,
// which on a crowded processor is not much.
constexpr uint64_t busy_share = 10;  // of the time, 1 in so many

bool expects_steps(const sighting& node, uint64_t silence_ns) {
    return node.seen && node.slot.now == phase::training && !is_silent(node, silence_ns) &&
           (node.slot.quiet == lull::none || node.slot.quiet == lull::stopped);
}

suspicion judge(const rank_look& rank, bool busy, size_t busy_count, size_t count) {
    if (rank.gone || !rank.process.there) return suspicion::ended;
    if (rank.process.stopped()) return suspicion::stopped;
    if (rank.process.state == 'D') return suspicion::blocked;
    if (busy_count == 0 || busy_count == count) return busy ? suspicion::computes : suspicion::waits;
    // The fewer stand out; of a pair, the one that computes.
    const bool few = busy ? 2 * busy_count <= count : 2 * (count - busy_count) < count;
    return few ? suspicion::differs : (busy ? suspicion::computes : suspicion::waits);
}

const char* words_of(suspicion how) {
    switch (how) {
    case suspicion::ended: return "has ended without closing the run";
    case suspicion::stopped: return "is stopped by a signal";
    case suspicion::blocked: return "waits in the kernel for a device or a file system";
    case suspicion::differs: return "does otherwise than the other ranks of its node";
    case suspicion::computes: return "computes";
    case suspicion::waits: return "waits";
    case suspicion::none: break;
    }
    return "";
}

}  // namespace

// ---- the clock

void hang_clock::observe(const view& what, uint64_t silence_ns) {
    const uint64_t since_ns = seen_ns_ == 0 ? 0 : what.now_ns - seen_ns_;
    seen_ns_ = what.now_ns;
    uint64_t steps = 0;
    for (const auto& node : what.nodes) steps += node.slot.step_min + node.slot.step_max;
    const bool moved = steps != steps_;
    steps_ = steps;
    const bool expected = std::all_of(what.nodes.begin(), what.nodes.end(),
                                      [&](const sighting& node) { return expects_steps(node, silence_ns); });
    const bool suspended = std::all_of(what.nodes.begin(), what.nodes.end(),
                                       [](const sighting& node) { return node.slot.quiet == lull::stopped; });
    if (moved || !expected || suspended) stood_ns_ = 0;
    else stood_ns_ += std::min(since_ns, gap_ns_);
}

// ---- a node's part

lull lull_of(std::span<const rank_look> ranks) noexcept {
    const auto any = [&](auto which) { return std::any_of(ranks.begin(), ranks.end(), which); };
    if (any([](const rank_look& rank) { return rank.process.traced; })) return lull::traced;
    if (any([](const rank_look& rank) { return rank.left || (rank.step == 0 && !rank.gone); })) return lull::unstepped;
    if (any([](const rank_look& rank) { return rank.stores && !rank.gone; })) return lull::storage;
    const bool all_stopped = std::all_of(ranks.begin(), ranks.end(),
                                         [](const rank_look& rank) { return rank.gone || rank.process.stopped(); });
    const bool all_gone = std::all_of(ranks.begin(), ranks.end(), [](const rank_look& rank) { return rank.gone; });
    return all_stopped && !all_gone ? lull::stopped : lull::none;
}

suspect suspect_of(std::span<const rank_look> ranks, uint64_t look_ns) {
    const auto busy = [&](const rank_look& rank) { return rank.used_ns * busy_share >= look_ns; };
    const auto busy_count = static_cast<size_t>(std::count_if(ranks.begin(), ranks.end(), busy));
    suspect found;
    for (const auto& rank : ranks) {
        const suspicion how = judge(rank, busy(rank), busy_count, ranks.size());
        const bool first = found.how == suspicion::none;
        const bool sure = how >= suspicion::blocked || found.how >= suspicion::blocked;
        const bool worse = sure || rank.step == found.step ? how > found.how : rank.step < found.step;
        if (!first && !worse) continue;
        found.how = how;
        found.rank = rank.rank;
        found.step = rank.step;
        found.text = "rank " + std::to_string(rank.rank) + " (pid " + std::to_string(rank.pid) + ", step " +
                     std::to_string(rank.step) + ") " + words_of(how);
        if (how == suspicion::differs)
            found.text += busy(rank) ? ": it computes, they wait" : ": it waits, they compute";
    }
    return found;
}

// ---- all nodes

// What is certain counts first, then who is behind, then who does otherwise than the others.
std::optional<uint32_t> first_to_stop(std::span<const sighting> nodes) {
    const auto how = [](const sighting& node) { return static_cast<suspicion>(node.slot.suspicion); };
    const auto count = [&](suspicion which) {
        return std::count_if(nodes.begin(), nodes.end(), [&](const sighting& node) { return how(node) == which; });
    };
    const auto computing = count(suspicion::computes);
    const auto waiting = count(suspicion::waits);
    const auto weight = [&](const sighting& node) -> uint32_t {
        if (how(node) == suspicion::computes) return computing <= waiting ? 1 : 0;
        if (how(node) == suspicion::waits) return waiting < computing ? 1 : 0;
        return node.slot.suspicion;
    };
    uint64_t newest = 0;
    for (const auto& node : nodes) newest = std::max(newest, node.slot.step_min);
    std::optional<uint32_t> found;
    bool stands_out = false;
    for (uint32_t index = 0; index < nodes.size(); index++) {
        if (how(nodes[index]) == suspicion::none) continue;
        const auto& slot = nodes[index].slot;
        stands_out = stands_out || weight(nodes[index]) > 0 || slot.step_min < newest;
        if (!found) {
            found = index;
            continue;
        }
        const auto& best = nodes[*found];
        const bool sure = how(nodes[index]) >= suspicion::blocked || how(best) >= suspicion::blocked;
        const bool even = sure || slot.step_min == best.slot.step_min;
        if (even ? weight(nodes[index]) > weight(best) : slot.step_min < best.slot.step_min) found = index;
    }
    return stands_out ? found : std::nullopt;
}

}  // namespace varde::agent
