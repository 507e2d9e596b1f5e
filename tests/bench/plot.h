// Line charts as SVG, written by hand: a few lines, two axes, a legend.
#pragma once

#include "base/result.h"

#include <string>
#include <vector>

namespace varde::bench {

struct plot_axis {
    std::string label;
    bool doubling = false;  // logarithmic, a tick at each power of two; else linear from `least` or below
    bool bytes = false;     // ticks as "16 MiB"
    double least = 0;       // of a linear axis: it begins at the smaller of this and the data
};

struct plot_line {
    std::string name;
    std::vector<std::pair<double, double>> points;
    bool dots = false;  // the points alone, unconnected
};

// A time that is shaded, with its name above.
struct plot_span {
    std::string name;
    double begin = 0;
    double end = 0;
};

struct plot {
    std::string title;
    std::string subtitle;
    plot_axis x, y;
    std::vector<plot_line> lines;  // at most four
    std::vector<plot_span> spans;
};

result<void> write_plot(const plot& what, const std::string& path);

}  // namespace varde::bench
