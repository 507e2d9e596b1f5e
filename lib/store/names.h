// Names of files inside a generation, beyond those of store.h.  Pure functions; any thread.
#pragma once

#include "store/store.h"

#include <optional>

namespace varde::store {

constexpr std::string_view partial_suffix = ".partial";
constexpr std::string_view manifest_name = "manifest.json";
constexpr std::string_view damage_name = "damaged.json";
constexpr std::string_view retired_prefix = ".retired-";  // a generation that is being deleted
constexpr std::string_view left_prefix = ".left-";        // a link to what could not be deleted on a mount yet
constexpr std::string_view claim_prefix = "incarnation-";

struct pack_name_parts {
    uint32_t node_index = 0;
    uint32_t node_count = 0;
    bool partial = false;
};
// Nothing for a name that pack_name() would not have made, with or without ".partial".
std::optional<pack_name_parts> parse_pack_name(std::string_view name);

std::string claim_name(uint64_t incarnation);  // "incarnation-00003"
std::optional<uint64_t> parse_claim_name(std::string_view name);

// What this program may have made in a generation's directory.  Nothing else is ever deleted.
bool is_ours(std::string_view name);

}  // namespace varde::store
