// The element types of the safetensors format, by number, by name and by size.
#include "pack/layout.h"
#include "pack/text.h"

#include <array>

namespace varde::pack {

namespace {

struct dtype_row {
    const char* name;
    unsigned bits;
};

// Indexed by the number of the dtype; 0 is none.
constexpr std::array<dtype_row, dtype_count + 1> rows = {{
    {"", 0},        {"BOOL", 8},    {"U8", 8},      {"I8", 8},          {"F8_E5M2", 8},     {"F8_E4M3", 8},
    {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},       {"I32", 32},        {"U32", 32},
    {"F32", 32},    {"F64", 64},    {"I64", 64},    {"U64", 64},        {"C64", 64},        {"F4", 4},
    {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8},
}};
static_assert(static_cast<unsigned>(dtype::f8_e5m2fnuz) == dtype_count);

const dtype_row& row_of(dtype type) noexcept {
    const auto number = static_cast<size_t>(type);
    return rows[number < rows.size() ? number : 0];
}

}  // namespace

unsigned dtype_bits(dtype type) noexcept { return row_of(type).bits; }

const char* dtype_name(dtype type) noexcept { return row_of(type).name; }

result<dtype> dtype_named(std::string_view name) {
    for (size_t number = 1; number < rows.size(); number++) {
        if (name == rows[number].name) return static_cast<dtype>(number);
    }
    return fail(code::invalid, "no element type is called " + in_quotes(name) +
                                   "; the types are those of the safetensors format, such as BF16");
}

}  // namespace varde::pack
