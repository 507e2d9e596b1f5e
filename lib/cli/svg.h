// A few shapes of SVG, enough for a picture of boxes and words.  Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace varde::cli {

// Elements one below the other, in the units of the picture, which are pixels at its own size.
class svg_canvas {
public:
    // `style` is a class of the picture's style sheet.
    void rectangle(double x, double y, double width, double height, std::string_view style);
    void line(double x, double y, double to_x, double to_y, std::string_view style);
    // Straight from one to the next; at least two of them.
    void path(const std::vector<std::pair<double, double>>& points, std::string_view style);
    void circle(double x, double y, double radius, std::string_view style);
    void text(double x, double y, std::string_view style, const std::string& words);
    // Words that a pointer over what follows, up to end(), shows.
    void begin_tip(const std::string& words);
    void begin_at(double x, double y);
    void end();

    // What another canvas holds, moved.
    void put(const svg_canvas& other, double x, double y);

    // Inside a page, whose style sheet it uses: as wide as there is room.  `label` is for who cannot see.
    std::string figure(double width, double height, const std::string& label) const;
    // The whole file: white ground, style sheet, elements.
    std::string picture(double width, double height, std::string_view style_sheet) const;

private:
    std::string elements_;
};

// For text and attributes: control characters become '?'.
std::string svg_escaped(std::string_view text);

}  // namespace varde::cli
