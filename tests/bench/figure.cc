// Medians, and the order of turns.
#include "figure.h"

#include "base/clock.h"
#include "base/units.h"

#include <algorithm>
#include <cstdio>
#include <unistd.h>

namespace varde::bench {

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const size_t half = values.size() / 2;
    return values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
}

figure median_of(std::string name, std::string unit, std::vector<double> samples, goal_kind kind, double goal,
                 std::string remark) {
    const double value = median(samples);
    return {.name = std::move(name),
            .unit = std::move(unit),
            .value = value,
            .goal = goal,
            .at_least = kind == goal_kind::at_least,
            .samples = std::move(samples),
            .remark = std::move(remark)};
}

double seconds_since(uint64_t start_ns) {
    return static_cast<double>(mono_ns() - start_ns) / static_cast<double>(ns_per_s);
}

double seconds_of(const std::function<void()>& work) {
    const uint64_t start = mono_ns();
    work();
    return seconds_since(start);
}

void progress(const std::string& line) {
    if (::isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r\033[K%s", line.c_str());
}

result<std::vector<std::vector<double>>> take_turns(const settings& with, const std::string& name,
                                                    const std::vector<turn>& turns) {
    std::vector<std::vector<double>> seconds(turns.size());
    for (unsigned round = 0; round <= with.pairs; ++round) {
        progress(name + ": round " + std::to_string(round) + " of " + std::to_string(with.pairs));
        for (size_t place = 0; place < turns.size(); ++place) {
            const size_t now = (place + round) % turns.size();
            const result<double> took = turns[now]();
            if (!took) return took.error();
            if (round > 0) seconds[now].push_back(*took);
        }
    }
    return seconds;
}

std::vector<double> speed_ratios(const std::vector<std::vector<double>>& seconds, size_t ours, size_t peer) {
    std::vector<double> ratios;
    for (size_t round = 0; round < seconds[ours].size(); ++round)
        ratios.push_back(seconds[peer][round] / seconds[ours][round]);
    return ratios;
}

std::string speed_text(uint64_t size_bytes, std::vector<double> seconds) {
    char speed[32] = "";
    std::snprintf(speed, sizeof speed, "%.2f GB/s", static_cast<double>(size_bytes) / median(std::move(seconds)) / 1e9);
    return format_bytes(size_bytes) + " at " + speed;
}

}  // namespace varde::bench
