// How fast the agent faults its arena in, with the pages of --huge-pages or ordinary ones, and on which NUMA node the
// kernel has them then.
#include "figure.h"

#include "agent/memory.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/units.h"

#include <algorithm>
#include <cerrno>
#include <sys/syscall.h>
#include <unistd.h>

namespace varde::bench {

namespace {

constexpr uint64_t size_bytes = 1ULL << 30;
constexpr uint64_t look_bytes = 1ULL << 20;  // every which page is asked for
constexpr int wanted_node = 0;               // every machine has it

// How many of the pages that were asked for are where they are wanted.
result<size_t> count_placed(const mapping& arena, size_t& of) {
    std::vector<void*> pages;
    for (size_t at = 0; at < arena.size_bytes(); at += look_bytes) pages.push_back(arena.data() + at);
    std::vector<int> nodes(pages.size(), -1);
    if (::syscall(SYS_move_pages, 0, pages.size(), pages.data(), nullptr, nodes.data(), 0) != 0)
        return os_error(errno, "couldn't ask the kernel for the places of pages");
    of = pages.size();
    return static_cast<size_t>(std::count(nodes.begin(), nodes.end(), wanted_node));
}

uint64_t huge_page_bytes(const settings& with) {
    for (size_t i = 0; i + 1 < with.agent_options.size(); ++i)
        if (with.agent_options[i] == "--huge-pages") return *parse_number(with.agent_options[i + 1]);
    return 0;
}

}  // namespace

result<figures> arena_figures(const settings& with) {
    std::string remark;
    const auto seconds = take_turns(
        with, "arena_pages_per_s", {[&]() -> result<double> {
            const auto made = agent::make_memory(
                {.size_bytes = size_bytes, .huge_page_bytes = huge_page_bytes(with), .shares = {{wanted_node, 1}}});
            if (!made) return made.error();
            const uint64_t start = mono_ns();
            if (const result<void> there = agent::reserve_memory(made->memory.arena); !there) return there.error();
            const double took_s = seconds_since(start);
            size_t of = 0;
            const auto placed = count_placed(made->memory.arena, of);
            if (!placed) return placed.error();
            remark = std::string(made->memory.huge ? "huge" : "ordinary") + " pages, counted as 4 KiB; " +
                     std::to_string(*placed) + " of " + std::to_string(of) +
                     " pages that were looked at are on the NUMA node that was asked for";
            return took_s;
        }});
    if (!seconds) return seconds.error();
    std::vector<double> speeds;
    for (const double one : (*seconds)[0]) speeds.push_back(static_cast<double>(size_bytes / limits::page_bytes) / one);
    return figures{median_of("arena_pages_per_s", "1/s", speeds, goal_kind::at_least, 0, remark)};
}

}  // namespace varde::bench
