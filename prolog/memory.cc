// MemTotal and MemAvailable, and whether an arena fits.
#include "prolog/memory.h"

#include "base/checked.h"
#include "base/units.h"
#include "prolog/text_file.h"

#include <optional>

namespace varde::node {

namespace {

// "MemTotal:       24683720 kB"
std::optional<uint64_t> value_of(std::string_view text, std::string_view key) {
    size_t at = text.starts_with(key) ? 0 : text.find("\n" + std::string(key));
    if (at == std::string_view::npos) return std::nullopt;
    if (at != 0) at++;
    text.remove_prefix(at + key.size());
    text = text.substr(0, text.find('\n'));
    const size_t begin = text.find_first_not_of(' ');
    const size_t end = text.find(" kB");
    if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return std::nullopt;
    const auto kibibytes = parse_number(text.substr(begin, end - begin));
    return kibibytes ? checked_multiply(*kibibytes, 1024) : std::nullopt;
}

}  // namespace

result<node_memory> parse_meminfo(std::string_view text) {
    const auto total = value_of(text, "MemTotal:");
    const auto available = value_of(text, "MemAvailable:");
    if (!total || !available)
        return fail(code::damaged, "couldn't read /proc/meminfo: MemTotal or MemAvailable is missing");
    return node_memory{*total, *available};
}

result<node_memory> read_node_memory() {
    auto text = read_text("/proc/meminfo");
    if (!text) return std::move(text).error();
    return parse_meminfo(*text);
}

result<void> check_arena_fits(uint64_t arena_bytes, const node_memory& node) {
    if (arena_bytes <= node.available_bytes) return {};
    return fail(code::no_memory,
                "couldn't give " + format_bytes(arena_bytes) +
                    " to checkpoints: " + format_bytes(node.available_bytes) + " of " + format_bytes(node.total_bytes) +
                    " are available on this node; set --ckpt-memory, or agent.memory in varde.yaml, to less");
}

}  // namespace varde::node
