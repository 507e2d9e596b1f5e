// Words of `scontrol show node`.
#include "base/slurm_nodes.h"

#include "base/fields.h"
#include "base/units.h"

namespace varde {

namespace {

constexpr size_t node_list_bytes_max = 64 << 10;

// The value of "KEY=" at the start of a word.
std::string_view field(std::string_view line, std::string_view key) {
    while (!line.empty()) {
        const std::string_view word = take_until(line, ' ');
        if (word.size() > key.size() && word.starts_with(key) && word[key.size()] == '=')
            return word.substr(key.size() + 1);
    }
    return {};
}

}  // namespace

std::vector<node_facts> parse_nodes(std::string_view text) {
    std::vector<node_facts> found;
    while (!text.empty()) {
        const std::string_view line = take_until(text, '\n');
        node_facts node{std::string(field(line, "NodeName")), std::string(field(line, "NodeAddr")),
                        std::string(field(line, "State")), 0, std::string(field(line, "Comment"))};
        if (node.address.empty()) node.address = node.name;
        const auto port = parse_number(field(line, "Port"), UINT16_MAX);
        if (port) node.port = static_cast<uint16_t>(*port);
        if (!node.name.empty() && is_node_list(node.name)) found.push_back(std::move(node));
    }
    return found;
}

bool is_node_list(std::string_view text) noexcept {
    if (text.size() > node_list_bytes_max || text.starts_with('-')) return false;
    for (const char c : text) {
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && std::string_view("-_.,[]").find(c) == std::string_view::npos) return false;
    }
    return true;
}

bool is_down(const node_facts& node) noexcept { return node.state.starts_with("DOWN"); }

bool is_changing_power(const node_facts& node) noexcept {
    std::string_view flags = node.state;
    while (!flags.empty()) {
        const std::string_view flag = take_until(flags, '+');
        if (flag.starts_with("POWER") || flag.starts_with("REBOOT")) return true;
    }
    return false;
}

}  // namespace varde
