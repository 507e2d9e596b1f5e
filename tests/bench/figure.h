// A figure of this machine, its goal, and what the programs of the bench share.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace varde::bench {

struct settings {
    std::string directory;             // where the bench may write; emptied afterwards
    std::string program_directory;     // of the bench itself: libvarde.so and varde-agent lie beside it
    uint64_t size_bytes = 2ULL << 30;  // of the checkpoint
    unsigned pairs = 5;
};

struct figure {
    std::string name;
    std::string unit;
    double value = 0;
    double goal = 0;
    bool at_least = true;  // whether the value is to reach the goal, or to stay below it
    unsigned pairs = 0;    // measurements, or pairs of them, that the median is of
    std::string remark;

    bool met() const noexcept { return at_least ? value >= goal : value <= goal; }
};

double median(std::vector<double> values);
double seconds_of(const std::function<void()>& work);
double seconds_since(uint64_t start_ns);

// Each prints its progress to stderr when that is a terminal.
void progress(const std::string& line);

result<figure> write_vs_fio(const settings& with);  // speed of a whole checkpoint, as a ratio
result<figure> choose_time(const settings& with);   // ms: the newest complete one of 50 generations of 2,048 packs
result<figure> roster_time(const settings& with);   // ms: 2,048 slots
result<figure> due_time(const settings& with);      // ns: one varde_due

}  // namespace varde::bench
