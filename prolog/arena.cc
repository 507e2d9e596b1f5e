// Plan, then pages, then the check that what is left of them fits.
#include "prolog/arena.h"

#include "base/limits.h"
#include "prolog/huge_pages.h"
#include "prolog/log.h"
#include "prolog/memory.h"
#include "prolog/plan.h"

#include <syslog.h>

namespace varde::node {

namespace {

constexpr int huge_pages_ms = 300;

// Pages as large as the site wants, or smaller ones where these would waste more than 2 % of the arena.
uint64_t choose_page_bytes(const config& site, uint64_t arena_bytes) {
    for (const uint64_t page_bytes : {uint64_t{1} << 30, uint64_t{2} << 20}) {
        if (page_bytes > site.huge_page_bytes) continue;
        const uint64_t over = (page_bytes - arena_bytes % page_bytes) % page_bytes;
        if (over <= arena_bytes / limits::rounding_share) return page_bytes;
    }
    return limits::page_bytes;
}

result<void> write_plan(const job_directory& directory, const result<topo::plan>& plan) {
    if (!plan) return plan.error();
    return directory.write_file(plan_name, topo::format_plan(*plan));
}

// Without a plan the pages come from where the kernel has them: then from the first node's pool, for want of better.
std::vector<page_share> shares_of(const result<topo::plan>& plan, uint64_t arena_bytes) {
    if (!plan) return {{0, arena_bytes}};
    std::vector<page_share> shares;
    for (const auto& share : plan->shares) shares.push_back({share.node, share.bytes});
    return shares;
}

}  // namespace

result<void> set_up_arena(const job_directory& directory, const request& job, const config& site, state& made) {
    const auto node = read_node_memory();
    if (!node) return node.error();
    made.arena_bytes = arena_bytes(site, job.wish.memory_bytes, job.wish.memory_percent, node->total_bytes);
    const uint64_t page_bytes = choose_page_bytes(site, made.arena_bytes);
    // Before anything is taken: pages that are free in the kernel's pool are not among what it calls available.
    node_memory with_pool = *node;
    if (page_bytes != limits::page_bytes) with_pool.available_bytes += free_huge_bytes(page_bytes);
    if (auto fits = check_arena_fits(made.arena_bytes, with_pool); !fits) return fits;
    const auto plan = plan_job(site, made.arena_bytes, page_bytes, own_variable);
    const auto written = write_plan(directory, plan);
    if (!written) log_line(LOG_WARNING, "no plan for the arena: " + written.error().context);
    made.planned = written.has_value();
    if (page_bytes != limits::page_bytes) {
        const auto taken = take_huge_pages(directory, page_bytes, shares_of(plan, made.arena_bytes), huge_pages_ms);
        if (taken) made.huge_page_bytes = page_bytes;
        else log_line(LOG_WARNING, taken.error().context);
    }
    if (made.huge_page_bytes != 0) return {};
    const auto now = read_node_memory();
    if (!now) return now.error();
    return check_arena_fits(made.arena_bytes, *now);
}

result<void> tear_down_arena(const job_directory& directory) {
    auto given = give_back_huge_pages(directory);
    if (given) return given;
    log_line(LOG_WARNING, "huge pages of the job are left: " + given.error().context);
    // A record that is damaged, or none of ours, stays so.
    const code what = given.error().what;
    return what == code::damaged || what == code::invalid ? result<void>() : given;
}

}  // namespace varde::node
