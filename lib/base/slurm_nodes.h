// Nodes as Slurm describes them.  Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace varde {

constexpr uint16_t slurmd_port_default = 6818;

struct node_facts {
    std::string name;
    std::string address;
    std::string state;    // "ALLOCATED", "DOWN+NOT_RESPONDING", ...
    uint16_t port = 0;    // 0: the cluster's
    std::string comment;  // its first word: enough to know ours
};

// Lines of `scontrol --oneliner show node`.
std::vector<node_facts> parse_nodes(std::string_view text);

bool is_node_list(std::string_view text) noexcept;  // letters, digits and -_.,[] only, at most 64 KiB, no leading dash
bool is_down(const node_facts& node) noexcept;
bool is_changing_power(const node_facts& node) noexcept;  // by Slurm: powered down or up, or rebooted

}  // namespace varde
