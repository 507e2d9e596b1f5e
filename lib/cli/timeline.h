// The pictures of a report: progress over time with everything that held it up, and what each restart cost.  Pure.
#pragma once

#include "cli/story.h"

#include <string>

namespace varde::cli {

// Figures for a page that has the style sheet of report_html.cc.
std::string draw_timeline(const story& told);
std::string draw_costs(const story& told);

constexpr size_t costs_drawn_max = 30;  // the newest

// Class of a part's colour: "part-detect".
std::string part_class(size_t which);

}  // namespace varde::cli
