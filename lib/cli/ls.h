// The words and the JSON of `varde ls`, apart from reading, for tests.
#pragma once

#include "store/store.h"

#include <nlohmann/json.hpp>

namespace varde::cli {

// "20m5s", "3h12m", "2d4h": the two greatest units of the time from `wall_ns` to `now_ns`; "now" where it lies ahead.
std::string age_text(uint64_t wall_ns, uint64_t now_ns);

// "complete", or what is missing.
std::string state_text(const store::generation& what);

std::string list_table(const std::vector<store::generation>& generations, uint64_t now_ns);
nlohmann::ordered_json list_json(const std::vector<store::generation>& generations);

}  // namespace varde::cli
