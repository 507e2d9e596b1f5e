// JSON on its way out.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace varde::cli {

// Indented, ending in a line feed.  Bytes that are no UTF-8 (a path can hold any) become U+FFFD instead of an
// exception.
inline std::string json_text(const nlohmann::ordered_json& value) {
    return value.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace varde::cli
