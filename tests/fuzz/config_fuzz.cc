// varde.yaml, hostile: it is refused in one line, or what each key then says is taken again as the same.
#include "config/config.h"
#include "config/keys.h"

#include <cstdint>
#include <cstdlib>

using namespace varde;

namespace {

void require(bool holds) {
    if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto read = parse_config(text, "varde.yaml");
    if (!read) {
        for (const char c : read.error().context) require(c >= ' ' && c <= '~');
        return 0;
    }
    std::string page;
    std::string_view section;
    for (const config_key& key : config_keys()) {
        if (section != key.section) page += std::string(key.section) + ":\n";
        section = key.section;
        page += std::string("  ") + key.name + ": " + key.value.show(read->values) + "\n";
    }
    const auto again = parse_config(page, "varde.yaml");
    require(again && again->values == read->values);
    require(arena_bytes(read->values, {}, {}, 1ULL << 40) > 0);
    return 0;
}
