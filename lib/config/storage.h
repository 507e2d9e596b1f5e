// varde.yaml's section `storage`: the network that is to carry the checkpoints, and the texts of its keys.  Pure.
#pragma once

#include "base/ip_address.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace varde {

enum class storage_policy : uint8_t { check, require, route };

// Servers of the file systems below a path, where the mount does not name them.
struct storage_target {
    std::string path;  // absolute
    std::vector<ip_address> servers;

    bool operator==(const storage_target&) const = default;
};

struct storage_settings {
    std::string interface;  // empty: what is found is reported, and nothing is expected
    storage_policy policy = storage_policy::check;
    std::optional<ip_prefix> subnet;    // `route` adds routes to addresses in it, and to no others
    std::optional<ip_address> gateway;  // of `route`, where the servers are not neighbours on the interface
    std::vector<storage_target> targets;
    uint32_t mtu_min_bytes = 0;   // 0: any
    uint32_t speed_min_mbps = 0;  // 0: any

    bool operator==(const storage_settings&) const = default;
};

result<std::string> parse_interface(std::string_view text);
std::string format_interface(const std::string& interface);

// check, require, route.
result<storage_policy> parse_policy(std::string_view text);
std::string format_policy(storage_policy policy);

// "/weka 10.1.0.5 10.1.0.6, /gpfs 10.2.0.5"
result<std::vector<storage_target>> parse_targets(std::string_view text);
std::string format_targets(const std::vector<storage_target>& targets);

// What the keys need of each other.
result<void> check_storage(const storage_settings& settings);

}  // namespace varde
