// SVG elements, a line each.
#include "cli/svg.h"

#include <fmt/format.h>

namespace varde::cli {

std::string svg_escaped(std::string_view text) {
    std::string safe;
    for (const char letter : text) {
        switch (letter) {
        case '&': safe += "&amp;"; break;
        case '<': safe += "&lt;"; break;
        case '>': safe += "&gt;"; break;
        case '"': safe += "&quot;"; break;
        case '\'': safe += "&apos;"; break;
        default: safe += static_cast<unsigned char>(letter) < ' ' || letter == 0x7f ? '?' : letter;
        }
    }
    return safe;
}

void svg_canvas::rectangle(double x, double y, double width, double height, std::string_view style) {
    elements_ += fmt::format("<rect x=\"{:g}\" y=\"{:g}\" width=\"{:g}\" height=\"{:g}\" class=\"{}\"/>\n", x, y, width,
                             height, style);
}

void svg_canvas::line(double x, double y, double to_x, double to_y, std::string_view style) {
    elements_ +=
        fmt::format("<line x1=\"{:g}\" y1=\"{:g}\" x2=\"{:g}\" y2=\"{:g}\" class=\"{}\"/>\n", x, y, to_x, to_y, style);
}

void svg_canvas::path(const std::vector<std::pair<double, double>>& points, std::string_view style) {
    elements_ += fmt::format("<polyline class=\"{}\" points=\"", style);
    for (const auto& [x, y] : points) elements_ += fmt::format("{:.2f},{:.2f} ", x, y);
    elements_ += "\"/>\n";
}

void svg_canvas::circle(double x, double y, double radius, std::string_view style) {
    elements_ += fmt::format("<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"{:g}\" class=\"{}\"/>\n", x, y, radius, style);
}

void svg_canvas::text(double x, double y, std::string_view style, const std::string& words) {
    elements_ += fmt::format("<text x=\"{:g}\" y=\"{:g}\" class=\"{}\">{}</text>\n", x, y, style, svg_escaped(words));
}

void svg_canvas::begin_tip(const std::string& words) {
    elements_ += fmt::format("<g><title>{}</title>\n", svg_escaped(words));
}

void svg_canvas::begin_at(double x, double y) {
    elements_ += fmt::format("<g transform=\"translate({:g} {:g})\">\n", x, y);
}

void svg_canvas::end() { elements_ += "</g>\n"; }

void svg_canvas::put(const svg_canvas& other, double x, double y) {
    begin_at(x, y);
    elements_ += other.elements_;
    end();
}

std::string svg_canvas::figure(double width, double height, const std::string& label) const {
    return fmt::format("<svg viewBox=\"0 0 {:g} {:g}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n", width, height,
                       svg_escaped(label), elements_);
}

std::string svg_canvas::picture(double width, double height, std::string_view style_sheet) const {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\" "
        "height=\"{1:g}\">\n<style>\n{2}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
        "{3}</svg>\n",
        width, height, style_sheet, elements_);
}

}  // namespace varde::cli
