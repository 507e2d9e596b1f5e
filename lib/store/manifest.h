// manifest.json as text.  Reading trusts nothing: types, counts and numbers are checked, unknown members are ignored.
// Pure functions, no exception leaves them; any thread.
#pragma once

#include "store/store.h"

namespace varde::store {

// A pack's line is about 150 bytes: 65,536 nodes are 10 MiB.
constexpr uint64_t manifest_bytes_max = 32ULL << 20;

result<std::string> encode_manifest(const manifest& record);  // invalid: a record that decode_manifest() would refuse
result<manifest> decode_manifest(std::string_view text);      // damaged

// Whether both name the same generation and the same packs: two leaders differ in the time, and that is all right.
bool same_packs(const manifest& a, const manifest& b) noexcept;

std::string encode_damage(const std::string& reason);  // damaged.json
std::string decode_damage(std::string_view text);      // its reason; a text for people where it has none

}  // namespace varde::store
