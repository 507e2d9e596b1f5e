// Huge pages for one job's arena: taken from the kernel before the agent starts, given back after it has ended.
//
// The kernel keeps huge pages in pools, one per NUMA node and size, and gives them to who maps them.  What the pools
// lack is added to them here, and no more than that is taken away again: pages that the administrator has reserved
// stay.  What was added stands in the job's directory before it is added, so that a prolog or epilog that was killed in
// between leaves nothing behind.  One program of a node at a time changes the pools (a lock in the run directory that
// only root can hold).
#pragma once

#include "base/result.h"
#include "prolog/job_directory.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace varde::node {

constexpr const char* huge_pages_name = "huge_pages";  // in the job's directory

struct page_share {
    uint32_t numa_node = 0;
    uint64_t size_bytes = 0;
};

// Has the pools hold what the shares need, or leaves them as they were: no_memory says how much the kernel had.  The
// kernel looks for free memory while we wait; it is asked in small steps, at most until `timeout_ms` have passed.
// `root` is in front of /sys, for tests.
// Pages that other jobs of ours have claimed count as theirs from then on, mapped or not; and whoever has the lock
// first finishes what a program that was killed had begun.
result<void> take_huge_pages(const job_directory& job, uint64_t page_bytes, std::span<const page_share> shares,
                             int timeout_ms, const std::string& root = {});

// Bytes in free huge pages of this size, on all NUMA nodes.
uint64_t free_huge_bytes(uint64_t page_bytes, const std::string& root = {});

// To be called when nothing of the job maps them any more.  Nothing was taken: nothing is done.
result<void> give_back_huge_pages(const job_directory& job, const std::string& root = {});

// ---- The record

// One pool: grown from `before` pages to `after`, so that it holds the `claimed` ones of this job.
struct grown_pool {
    uint32_t numa_node = 0;
    uint64_t before = 0;
    uint64_t after = 0;
    uint64_t claimed = 0;

    bool operator==(const grown_pool&) const = default;
};
struct taken_pages {
    uint64_t page_bytes = 0;
    bool settled = false;  // the pools have grown by exactly that; else by that at most
    std::string boot;      // the pools of this start of the system: the next one has others
    std::vector<grown_pool> pools;

    bool operator==(const taken_pages&) const = default;
};
std::string encode_taken(const taken_pages& from);
// damaged: not what encode_taken() makes.
result<taken_pages> decode_taken(std::string_view text);

}  // namespace varde::node
