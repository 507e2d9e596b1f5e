// The picture from the outside in: frame, spans, ticks, lines, legend.
#include "plot.h"

#include "base/units.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <fstream>

namespace varde::bench {

namespace {

constexpr double width = 860, height = 460, left = 72, right = 24, top = 84, bottom = 60;
constexpr std::array colours{"#0b6e99", "#d9730d", "#6b6b6b", "#448361"};  // told apart also by colour-blind readers
constexpr double tick_count = 6;

__attribute__((format(printf, 1, 2))) std::string text(const char* format, ...) {
    char line[512] = "";
    va_list values;
    va_start(values, format);
    std::vsnprintf(line, sizeof line, format, values);
    va_end(values);
    return line;
}

// One axis: from its values to the places on the page.
struct scale {
    double least = 0, most = 1, from = 0, to = 1;
    bool doubling = false;

    double place(double value) const {
        const double share =
            doubling ? std::log2(value / least) / std::log2(most / least) : (value - least) / (most - least);
        return from + share * (to - from);
    }
};

// 1, 2 or 5 times a power of ten, so that about tick_count of them span the axis.
double tick_step(double span) {
    const double power = std::pow(10, std::floor(std::log10(span / tick_count)));
    for (const double factor : {1.0, 2.0, 5.0}) {
        if (span / (power * factor) <= tick_count) return power * factor;
    }
    return power * 10;
}

scale make_scale(const plot& what, bool is_x) {
    const plot_axis& axis = is_x ? what.x : what.y;
    double least = axis.doubling ? INFINITY : axis.least, most = -INFINITY;
    for (const plot_line& line : what.lines) {
        for (const auto& [x, y] : line.points) {
            least = std::min(least, is_x ? x : y);
            most = std::max(most, is_x ? x : y);
        }
    }
    if (most <= least) most = least + 1;
    if (!axis.doubling) {
        const double step = tick_step(most - least);
        least = std::floor(least / step) * step;
        if (!is_x) most = std::ceil(most / step) * step;
    }
    return is_x ? scale{least, most, left, width - right, axis.doubling}
                : scale{least, most, height - bottom, top, axis.doubling};
}

std::vector<double> ticks_of(const scale& on) {
    std::vector<double> ticks;
    const double step = on.doubling ? 0 : tick_step(on.most - on.least);
    for (double at = on.least; at <= on.most * (1 + 1e-9); at = on.doubling ? at * 2 : at + step)
        ticks.push_back(std::abs(at) < step / 1000 ? 0 : at);
    return ticks;
}

std::string tick_text(const plot_axis& axis, double at) {
    return axis.bytes ? format_bytes(static_cast<uint64_t>(at)) : text("%g", at);
}

std::string draw_axes(const plot& what, const scale& x, const scale& y) {
    std::string svg;
    for (const double at : ticks_of(y)) {
        svg += text("<line x1='%g' x2='%g' y1='%.1f' y2='%.1f' stroke='#e4e4e4'/>\n", left, width - right, y.place(at),
                    y.place(at));
        svg += text("<text x='%g' y='%.1f' text-anchor='end'>%s</text>\n", left - 8, y.place(at) + 4,
                    tick_text(what.y, at).c_str());
    }
    for (const double at : ticks_of(x)) {
        svg += text("<line x1='%.1f' x2='%.1f' y1='%g' y2='%g' stroke='#333'/>\n", x.place(at), x.place(at),
                    height - bottom, height - bottom + 5);
        svg += text("<text x='%.1f' y='%g' text-anchor='middle'>%s</text>\n", x.place(at), height - bottom + 20,
                    tick_text(what.x, at).c_str());
    }
    svg += text("<path d='M%g %gV%gH%g' fill='none' stroke='#333'/>\n", left, top, height - bottom, width - right);
    svg += text("<text x='%g' y='%g' text-anchor='middle'>%s</text>\n", (left + width - right) / 2, height - 14,
                what.x.label.c_str());
    svg += text("<text transform='translate(20 %g) rotate(-90)' text-anchor='middle'>%s</text>\n",
                (top + height - bottom) / 2, what.y.label.c_str());
    return svg;
}

std::string draw_spans(const plot& what, const scale& x) {
    std::string shades, names;
    bool dark = true;
    for (const plot_span& span : what.spans) {
        const double begin = x.place(span.begin), end = x.place(span.end);
        shades += text("<rect x='%.1f' y='%g' width='%.1f' height='%g' fill='%s'/>\n", begin, top, end - begin,
                       height - top - bottom, dark ? "#fbe4cf" : "#e3eef3");
        names += text("<text x='%.1f' y='%g' fill='#555'>%s</text>\n", begin + 3, dark ? top + 14 : top + 30,
                      span.name.c_str());
        dark = !dark;
    }
    return shades + names;
}

std::string draw_line(const plot_line& line, const char* colour, const scale& x, const scale& y) {
    std::string path, dots;
    for (const auto& [at, value] : line.points) {
        path += text("%c%.1f %.1f", path.empty() ? 'M' : 'L', x.place(at), y.place(value));
        dots += text("<circle cx='%.1f' cy='%.1f' r='%g' fill='%s'/>\n", x.place(at), y.place(value),
                     line.dots ? 2.0 : 3.0, colour);
    }
    return line.dots ? dots
                     : text("<path fill='none' stroke-width='2' stroke='%s' d='", colour) + path + "'/>\n" + dots;
}

std::string draw_legend(const plot& what) {
    std::string svg;
    double at = left;
    for (size_t i = 0; i < what.lines.size(); ++i) {
        svg += text("<circle cx='%g' cy='66' r='4' fill='%s'/>\n<text x='%g' y='70'>%s</text>\n", at + 5,
                    colours[i % colours.size()], at + 14, what.lines[i].name.c_str());
        at += 34 + 6.8 * static_cast<double>(what.lines[i].name.size());
    }
    return svg;
}

}  // namespace

result<void> write_plot(const plot& what, const std::string& path) {
    const scale x = make_scale(what, true), y = make_scale(what, false);
    std::string svg = text(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %g %g' font-family='sans-serif' "
        "font-size='12' fill='#222'>\n<rect width='%g' height='%g' fill='white'/>\n",
        width, height, width, height);
    svg += text("<text x='%g' y='26' font-size='17' font-weight='bold'>%s</text>\n", left, what.title.c_str());
    svg += text("<text x='%g' y='46' fill='#555'>%s</text>\n", left, what.subtitle.c_str());
    svg += draw_spans(what, x) + draw_axes(what, x, y);
    for (size_t i = 0; i < what.lines.size(); ++i) svg += draw_line(what.lines[i], colours[i % colours.size()], x, y);
    svg += draw_legend(what) + "</svg>\n";
    std::ofstream file(path);
    file << svg;
    file.close();
    if (!file) return fail(code::io, "couldn't write '" + path + "'");
    return {};
}

}  // namespace varde::bench
