// Drawing a seed's plan.
#include "plan.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace varde::simulate {

namespace {

constexpr std::array<std::string_view, 7> mistake_names = {
    "", "retire_early", "no_fence", "any_start", "partial_packs", "silence_alone", "take_back"};

// Most seeds are small and long, because most orders of events need few nodes; some are large.
uint32_t draw_node_count(dice& of) {
    const double size = of.share();
    if (size < 0.12) return 1;
    if (size < 0.80) return static_cast<uint32_t>(of.pick(2, 16));
    if (size < 0.96) return static_cast<uint32_t>(of.pick(17, 128));
    if (size < 0.995) return static_cast<uint32_t>(of.pick(129, 512));
    return static_cast<uint32_t>(of.pick(513, 2048));
}

}  // namespace

uint64_t dice::until_next(double per_s) {
    if (per_s <= 0) return UINT64_MAX / 4;
    const double wait_s = -std::log(1 - share()) / per_s;
    return static_cast<uint64_t>(std::min(wait_s, 1e9) * 1e9);
}

mistake mistake_of(std::string_view name) {
    const auto found = std::find(mistake_names.begin() + 1, mistake_names.end(), name);
    return found == mistake_names.end() ? mistake::none : static_cast<mistake>(found - mistake_names.begin());
}

plan draw_plan(uint64_t seed) {
    dice of(seed);
    plan drawn;
    drawn.seed = seed;
    drawn.node_count = draw_node_count(of);
    drawn.spare_count = static_cast<uint32_t>(of.pick(1, 4)) + drawn.node_count / 50;
    drawn.interval_ns = of.chance(0.3) ? 1200 * ns_per_s : of.pick(60, 1800) * ns_per_s;
    drawn.step_ns = of.pick(20, of.chance(0.1) ? 30'000 : 3000) * ns_per_ms;
    drawn.drain_ns = of.pick(1, of.chance(0.1) ? 300 : 60) * ns_per_s;
    drawn.launch_ns = of.pick(1, 40) * ns_per_s;
    drawn.load_ns = of.pick(1, 60) * ns_per_s;
    drawn.keep = static_cast<uint32_t>(of.pick(1, 4));
    // As many generations as keep a seed's work about the same, up to six weeks; and a failure every few generations.
    const uint64_t generations = std::clamp<uint64_t>(400 / drawn.node_count, 6, 150);
    drawn.length_ns = std::min(generations * drawn.interval_ns + 1800 * ns_per_s, 42 * 86400 * ns_per_s);
    const double length_s = static_cast<double>(drawn.length_ns) / 1e9;
    drawn.deaths_per_s = static_cast<double>(of.pick(0, 5)) / length_s;
    drawn.cuts_per_s = static_cast<double>(of.pick(0, 6)) / length_s;
    drawn.stalls_per_s = static_cast<double>(of.pick(0, 3)) / length_s;
    drawn.crashes_per_s = static_cast<double>(of.pick(0, 3)) / length_s;
    drawn.outages_per_s = static_cast<double>(of.pick(0, 4)) / length_s;
    drawn.write_loss = of.chance(0.3) ? 0.1 * of.share() : 0;
    drawn.write_delay = of.chance(0.3) ? 0.1 * of.share() : 0;
    drawn.seal_failure = of.chance(0.3) ? 0.05 * of.share() / drawn.node_count : 0;
    drawn.damage = of.chance(0.2) ? 0.2 * of.share() / drawn.node_count : 0;
    return drawn;
}

plan reference_plan(uint64_t seed, bool detection) {
    plan reference;
    reference.seed = seed;
    reference.node_count = 192;
    reference.spare_count = 4;
    reference.length_ns = 4 * 3600 * ns_per_s;
    reference.interval_ns = 1200 * ns_per_s;
    reference.step_ns = 2500 * ns_per_ms;
    reference.drain_ns = 40 * ns_per_s;
    reference.launch_ns = 30 * ns_per_s;
    reference.load_ns = 20 * ns_per_s;
    reference.detection = detection;
    reference.deaths_planned = 2;
    return reference;
}

}  // namespace varde::simulate
