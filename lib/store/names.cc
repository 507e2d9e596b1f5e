// Names of generations, packs and claims.  A name is accepted only in the one form that we write: "step-1200.r3" or a
// number that does not fit is somebody else's file, so that two names never mean one generation.
#include "store/names.h"

#include "base/limits.h"
#include "store/files.h"

#include <charconv>
#include <cstdio>

namespace varde::store {

namespace {

// The digits at the start of `text`, which is moved behind them.
std::optional<uint64_t> take_number(std::string_view& text) {
    uint64_t number = 0;
    const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (wrong != std::errc()) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    return number;
}

bool take_text(std::string_view& text, std::string_view expected) {
    if (!text.starts_with(expected)) return false;
    text.remove_prefix(expected.size());
    return true;
}

std::string padded(uint64_t number, int width) {
    char text[24] = "";
    ::snprintf(text, sizeof text, "%0*llu", width, static_cast<unsigned long long>(number));
    return text;
}

}  // namespace

std::string generation_name(generation_id id) {
    return "step-" + padded(id.step, 12) + ".r" + std::to_string(id.incarnation);
}

result<generation_id> parse_generation_name(std::string_view name) {
    std::string_view rest = name;
    const bool step_begins = take_text(rest, "step-");
    const std::optional<uint64_t> step = step_begins ? take_number(rest) : std::nullopt;
    const bool incarnation_begins = step && take_text(rest, ".r");
    const std::optional<uint64_t> incarnation = incarnation_begins ? take_number(rest) : std::nullopt;
    if (incarnation) {
        const generation_id id{*step, *incarnation};
        if (generation_name(id) == name) return id;
    }
    return fail(code::invalid, "'" + std::string(name) + "' is no name of a generation (such as '" +
                                   generation_name({1200, 3}) + "')");
}

std::string pack_name(uint32_t node_index, uint32_t node_count) {
    return "node-" + padded(node_index, 5) + "-of-" + padded(node_count, 5) + ".safetensors";
}

std::optional<pack_name_parts> parse_pack_name(std::string_view name) {
    std::string_view rest = name;
    const bool partial = rest.ends_with(partial_suffix);
    if (partial) rest.remove_suffix(partial_suffix.size());
    const std::string_view whole = rest;
    if (!take_text(rest, "node-")) return std::nullopt;
    const std::optional<uint64_t> index = take_number(rest);
    if (!index || !take_text(rest, "-of-")) return std::nullopt;
    const std::optional<uint64_t> count = take_number(rest);
    if (!count || *count > limits::nodes_max || *index >= *count) return std::nullopt;
    const pack_name_parts parts{static_cast<uint32_t>(*index), static_cast<uint32_t>(*count), partial};
    if (pack_name(parts.node_index, parts.node_count) != whole) return std::nullopt;
    return parts;
}

std::string claim_name(uint64_t incarnation) { return std::string(claim_prefix) + padded(incarnation, 5); }

std::optional<uint64_t> parse_claim_name(std::string_view name) {
    // Beyond any number of restarts: a stray file must not push the run to the end of the numbers.
    constexpr uint64_t incarnations_max = 999'999'999;
    std::string_view rest = name;
    if (!take_text(rest, claim_prefix)) return std::nullopt;
    const std::optional<uint64_t> number = take_number(rest);
    if (!number || *number == 0 || *number > incarnations_max || claim_name(*number) != name) return std::nullopt;
    return number;
}

bool is_ours(std::string_view name) {
    return parse_pack_name(name).has_value() || name == manifest_name || name == damage_name ||
           name.starts_with(files::temporary_prefix) || name.starts_with(left_prefix);
}

}  // namespace varde::store
