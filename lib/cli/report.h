// The forms of `varde report`, apart from reading, for tests.  Pure; any thread.
#pragma once

#include "cli/story.h"

#include <nlohmann/json.hpp>
#include <string>

namespace varde::cli {

// In one line: where the run is now, as far as its history tells at `now_ns`.
std::string state_line(const story& told, uint64_t now_ns);
// What was done, what it cost, what was lost: short lines.
std::vector<std::pair<std::string, std::string>> key_figures(const story& told, uint64_t now_ns);

std::string report_text(const story& told, const std::string& path, uint64_t now_ns, bool all);
nlohmann::ordered_json report_json(const story& told, const std::string& path);
// One page that needs nothing else: no script, no picture and no font of another place.
std::string report_html(const story& told, const std::string& path, uint64_t now_ns);

}  // namespace varde::cli
