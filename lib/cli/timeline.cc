// Layout of the pictures.  Units are pixels of a picture 1080 wide; the page scales it.
#include "cli/timeline.h"

#include "base/clock.h"
#include "base/units.h"
#include "cli/svg.h"
#include "pack/text.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fmt/format.h>

namespace varde::cli {

namespace {

constexpr double width = 1080;
constexpr double left = 64;
constexpr double right = 1064;
constexpr double top = 30;  // of the curve; markers of restarts are above
constexpr double bottom = 330;
constexpr double stall_top = 352;
constexpr double stall_bottom = 402;
constexpr double write_top = 424;
constexpr double write_bottom = 438;
constexpr double height = 478;
constexpr double half_clock = 30;  // of "10:20:03"
constexpr double thin = 2;         // what is shorter on the scale of weeks is still seen

// More than these make a picture slow and no clearer.
constexpr size_t generations_drawn_max = 4000;
constexpr size_t restarts_drawn_max = 500;

constexpr uint64_t minute_ns = 60 * ns_per_s;
constexpr uint64_t hour_ns = 60 * minute_ns;
constexpr uint64_t day_ns = 24 * hour_ns;

class timeline {
public:
    explicit timeline(const story& told) : told_(told) {}
    std::string draw();

private:
    double x(uint64_t wall_ns) const;
    double y(uint64_t step) const;
    void draw_steps();
    void draw_clock();
    void draw_restart(const restart_story& one, size_t number);
    void draw_starts();
    void draw_generation(const generation_story& one, uint64_t stall_max_ns);
    void draw_generations();

    const story& told_;
    svg_canvas canvas_;
};

double timeline::x(uint64_t wall_ns) const {
    const auto span = static_cast<double>(std::max<uint64_t>(told_.last_wall_ns - told_.first_wall_ns, 1));
    const double since = static_cast<double>(wall_ns) - static_cast<double>(told_.first_wall_ns);
    return left + std::clamp(since / span, 0.0, 1.0) * (right - left);
}

double timeline::y(uint64_t step) const {
    const auto most = static_cast<double>(std::max<uint64_t>(told_.last_step, 1));
    return bottom - std::clamp(static_cast<double>(step) / most, 0.0, 1.0) * (bottom - top);
}

// 1, 2 or 5 times a power of ten.
double round_up(double value) {
    const double power = std::pow(10, std::floor(std::log10(value)));
    for (const double factor : {1.0, 2.0, 5.0}) {
        if (value <= factor * power * 1.0001) return factor * power;
    }
    return 10 * power;
}

void timeline::draw_steps() {
    constexpr double lines = 5;
    const uint64_t most = std::max<uint64_t>(told_.last_step, 1);
    const double every = std::max(round_up(static_cast<double>(most) / lines), 1.0);
    const auto count = static_cast<uint64_t>(static_cast<double>(most) / every);
    for (uint64_t index = 0; index <= count; index++) {
        const double step = static_cast<double>(index) * every;
        const double at = y(static_cast<uint64_t>(step));
        canvas_.line(left, at, right, at, "grid");
        canvas_.text(left - 8, at + 4, "tick end", fmt::format("{:.0f}", step));
    }
    canvas_.text(left - 8, top - 14, "tick end", "step");
}

// Lines at round times of the host's zone.
void timeline::draw_clock() {
    constexpr uint64_t spacings[] = {ns_per_s,   2 * ns_per_s,  5 * ns_per_s,  10 * ns_per_s,  30 * ns_per_s,
                                     minute_ns,  2 * minute_ns, 5 * minute_ns, 10 * minute_ns, 30 * minute_ns,
                                     hour_ns,    2 * hour_ns,   6 * hour_ns,   12 * hour_ns,   day_ns,
                                     2 * day_ns, 7 * day_ns,    30 * day_ns,   365 * day_ns,   3650 * day_ns};
    constexpr uint64_t lines_max = 10;
    const uint64_t span = told_.last_wall_ns - told_.first_wall_ns;
    const auto every = std::find_if(std::begin(spacings), std::end(spacings) - 1,
                                    [&](uint64_t spacing) { return span / spacing <= lines_max; });
    const auto first_s = static_cast<time_t>(told_.first_wall_ns / ns_per_s);
    tm zone{};
    ::localtime_r(&first_s, &zone);
    const auto shift_ns = static_cast<int64_t>(zone.tm_gmtoff) * static_cast<int64_t>(ns_per_s);
    const auto local = static_cast<uint64_t>(static_cast<int64_t>(told_.first_wall_ns) + shift_ns);
    for (uint64_t at = (local / *every + 1) * *every; at <= local + span; at += *every) {
        const auto wall_ns = static_cast<uint64_t>(static_cast<int64_t>(at) - shift_ns);
        const std::string clock = clock_text(wall_ns);
        const double where = x(wall_ns);
        canvas_.line(where, top, where, write_bottom, "grid");
        // "2026-01-31 10:20:03": the day, or the time of day
        const std::string words = *every >= day_ns      ? clock.substr(5, 5)
                                  : *every >= minute_ns ? clock.substr(11, 5)
                                                        : clock.substr(11);
        if (where + half_clock <= width) canvas_.text(where, write_bottom + 18, "tick middle", words);
    }
    canvas_.text(left, height - 4, "tick", clock_text(told_.first_wall_ns));
    canvas_.text(right, height - 4, "tick end", clock_text(told_.last_wall_ns));
}

std::string tip_of(const restart_story& one, size_t number) {
    std::string words = fmt::format("restart {}: {}, {} lost", number, shown(one.what), span_text(one.total_ns()));
    for (size_t which = 0; which < part_count; which++) {
        if (one.cost_ns[which] > 0) words += fmt::format("; {} {}", part_names[which], span_text(one.cost_ns[which]));
    }
    return words;
}

void timeline::draw_restart(const restart_story& one, size_t number) {
    const double stopped = x(one.stopped_wall_ns);
    canvas_.begin_tip(tip_of(one, number));
    if (one.repeated_wall_ns != 0 && one.steps_repeated() > 0) {
        const double from = x(one.repeated_wall_ns);
        canvas_.rectangle(from, top, std::max(stopped - from, thin), bottom - top, "band part-rollback");
    }
    double from = stopped;
    for (size_t which = detect; which < part_count; which++) {
        if (one.cost_ns[which] == 0) continue;
        const double to = x(one.ends_ns[which]);
        canvas_.rectangle(from, top, std::max(to - from, 0.5), bottom - top, "band " + part_class(which));
        from = to;
    }
    const double middle = std::max((stopped + from) / 2, left);
    canvas_.line(middle, top - 8, middle, bottom, "failure");
    canvas_.circle(middle, top - 16, 9, one.planned ? "marker planned" : "marker");
    canvas_.text(middle, top - 12, "number", std::to_string(number));
    canvas_.end();
}

void timeline::draw_starts() {
    for (const auto& [number, one] : told_.starts) {
        if (one.progress.size() < 2) continue;
        std::vector<std::pair<double, double>> points;
        for (const auto& at : one.progress) points.emplace_back(x(at.wall_ns), y(at.step));
        canvas_.path(points, "progress");
    }
}

void timeline::draw_generation(const generation_story& one, uint64_t stall_max_ns) {
    const uint64_t reached =
        one.staged_wall_ns != 0 ? one.staged_wall_ns - std::min(one.stage_ns, one.staged_wall_ns) : one.settled_wall_ns;
    if (reached == 0) return;
    const std::string name = fate_name(one.what);
    canvas_.begin_tip(fmt::format("step {} of start {}, {}, {}{}: staged in {}, written in {}, stall {}", one.step,
                                  one.incarnation, format_bytes(one.bytes), name,
                                  one.why.empty() ? "" : " (" + shown(one.why) + ")", span_text(one.stage_ns),
                                  span_text(one.drain_ns), span_text(one.stall_ns)));
    canvas_.circle(x(reached), y(one.step), one.what == fate::complete ? 3 : 5, "generation " + name);
    if (one.stall_ns > 0 && stall_max_ns > 0) {
        const double part = static_cast<double>(one.stall_ns) / static_cast<double>(stall_max_ns);
        const double tall = std::max(part * (stall_bottom - stall_top), 1.0);
        canvas_.rectangle(x(reached) - 1.5, stall_bottom - tall, 3, tall, "stall");
    }
    const uint64_t end = std::max(one.settled_wall_ns, reached);
    canvas_.rectangle(x(reached), write_top, std::max(x(end) - x(reached), thin), write_bottom - write_top,
                      "writing " + name);
    canvas_.end();
}

// All that went wrong, and of what went well as many as can be told apart.
void timeline::draw_generations() {
    uint64_t stall_max_ns = 0;
    for (const auto& [id, one] : told_.generations) stall_max_ns = std::max(stall_max_ns, one.stall_ns);
    canvas_.text(left - 8, stall_top + 10, "tick end", "stall");
    canvas_.text(left - 8, stall_top + 24, "tick end", stall_max_ns == 0 ? "" : span_text(stall_max_ns));
    canvas_.line(left, stall_bottom, right, stall_bottom, "axis");
    canvas_.text(left - 8, write_top + 11, "tick end", "writing");
    const size_t stride = told_.generations.size() / generations_drawn_max + 1;
    size_t index = 0;
    size_t wrong = 0;
    for (const auto& [id, one] : told_.generations) {
        const bool plain = one.what == fate::complete || one.what == fate::open;
        if (plain ? index++ % stride == 0 : wrong++ < generations_drawn_max) draw_generation(one, stall_max_ns);
    }
}

std::string timeline::draw() {
    draw_steps();
    draw_clock();
    const size_t skipped = told_.restarts.size() - std::min(told_.restarts.size(), restarts_drawn_max);
    for (size_t index = skipped; index < told_.restarts.size(); index++) draw_restart(told_.restarts[index], index + 1);
    canvas_.line(left, bottom, right, bottom, "axis");
    draw_starts();
    draw_generations();
    return canvas_.figure(width, height, "progress of the training over time, and what held it up");
}

}  // namespace

std::string part_class(size_t which) {
    std::string name = part_names[which];
    std::replace(name.begin(), name.end(), ' ', '-');
    return "part-" + name;
}

std::string draw_timeline(const story& told) { return timeline(told).draw(); }

std::string draw_costs(const story& told) {
    constexpr double row = 26;
    constexpr double bar_left = 300;
    constexpr double bar_right = 980;
    const size_t count = std::min(told.restarts.size(), costs_drawn_max);
    const size_t skipped = told.restarts.size() - count;
    uint64_t most = 1;
    for (size_t index = skipped; index < told.restarts.size(); index++)
        most = std::max(most, told.restarts[index].total_ns());
    svg_canvas canvas;
    for (size_t line = 0; line < count; line++) {
        const auto& one = told.restarts[skipped + line];
        const double y = 4 + static_cast<double>(line) * row;
        constexpr size_t words_max = 40;
        std::string words = shown(one.what);
        if (words.size() > words_max) words = pack::escaped(one.what, words_max);
        canvas.circle(12, y + 9, 9, one.planned ? "marker planned" : "marker");
        canvas.text(12, y + 13, "number", std::to_string(skipped + line + 1));
        canvas.text(30, y + 13, "label", words);
        double from = bar_left;
        canvas.begin_tip(tip_of(one, skipped + line + 1));
        for (size_t which = 0; which < part_count; which++) {
            const double part = static_cast<double>(one.cost_ns[which]) / static_cast<double>(most);
            const double wide = part * (bar_right - bar_left);
            if (one.cost_ns[which] > 0) canvas.rectangle(from, y, wide, 18, "bar " + part_class(which));
            from += wide;
        }
        canvas.end();
        canvas.text(from + 8, y + 13, "label", span_text(one.total_ns()));
    }
    return canvas.figure(width, 8 + static_cast<double>(count) * row, "what each restart cost, by its parts");
}

}  // namespace varde::cli
