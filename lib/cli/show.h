// The words and the JSON of `varde show`, apart from reading, for tests.
#pragma once

#include "cli/verbs.h"
#include "pack/layout.h"

#include <nlohmann/json.hpp>

namespace varde::cli {

// "[3, 4]"; "[]" for a scalar.
std::string shape_text(const std::vector<uint64_t>& shape);

// "[2:4, 0:3] of [4, 3]", as slices; "whole".
std::string place_text(const pack::shard& what);

bool is_wanted(const show_options& options, uint32_t rank, const pack::shard& what);

std::string tensor_table(const pack::image& from, const show_options& options);
nlohmann::ordered_json tensor_json(const pack::image& from, const show_options& options);

}  // namespace varde::cli
