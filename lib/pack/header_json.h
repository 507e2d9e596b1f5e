// The JSON of a pack's header as plain lists, checked for its form only.  Internal to lib/pack.
#pragma once

#include "base/result.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace varde::pack {

// {"NAME": {"dtype": TYPE, "shape": [...], SECOND: [...]}}; SECOND is "data_offsets", or "offset" in varde.split.
struct raw_entry {
    std::string name;
    std::string type;
    std::vector<uint64_t> shape;
    std::vector<uint64_t> second;
};

struct raw_header {
    std::vector<raw_entry> entries;                             // in the order of the text
    std::vector<std::pair<std::string, std::string>> metadata;  // the varde.* keys, each at most once
    std::string broken;                                         // the first rule that the text breaks; empty: none

    // Null where the key is not there.
    const std::string* find(std::string_view name) const noexcept;
};

// What parsing stops at comes back as far as it was read, because a version that is too new must be named as such
// whatever else is unknown about it.
raw_header read_header_json(std::string_view text);
raw_header read_split_json(std::string_view text);

}  // namespace varde::pack
