// The texts of the section `storage`.
#include "config/storage.h"

#include "base/fields.h"
#include "base/limits.h"
#include "base/units.h"

namespace varde {

namespace {

constexpr size_t interface_bytes_max = 15;  // IFNAMSIZ less one
constexpr unsigned subnet_bits_min = 8;     // 10.0.0.0/8 is the largest private network

}  // namespace

result<std::string> parse_interface(std::string_view text) {
    if (text.size() > interface_bytes_max || text == "." || text == ".." ||
        text.find_first_of("/: \t") != std::string_view::npos)
        return fail(code::invalid, "it is no name of a network interface");
    return std::string(text);
}

std::string format_interface(const std::string& interface) { return interface; }

std::string format_policy(storage_policy policy) {
    return policy == storage_policy::check ? "check" : policy == storage_policy::require ? "require" : "route";
}

std::string format_targets(const std::vector<storage_target>& targets) {
    std::string text;
    for (const storage_target& target : targets) {
        text += (text.empty() ? "" : ", ") + target.path;
        for (const ip_address& server : target.servers) text += " " + format_address(server);
    }
    return text;
}

result<storage_policy> parse_policy(std::string_view text) {
    if (text == "check") return storage_policy::check;
    if (text == "require") return storage_policy::require;
    if (text == "route") return storage_policy::route;
    return fail(code::invalid, "it is neither 'check' nor 'require' nor 'route'");
}

result<std::vector<storage_target>> parse_targets(std::string_view text) {
    std::vector<storage_target> found;
    for (const auto part : split(text, ',')) {
        const auto words = split(part, ' ');
        if (words.empty() || words[0].front() != '/' || words[0].size() >= limits::path_bytes_max)
            return fail(code::invalid, "'" + printable(part) + "' does not begin with an absolute path");
        storage_target target{std::string(words[0]), {}};
        for (size_t i = 1; i < words.size(); i++) {
            auto address = parse_address(words[i]);
            if (!address) return std::move(address).error();
            target.servers.push_back(*address);
        }
        if (target.servers.empty()) return fail(code::invalid, "'" + printable(words[0]) + "' has no addresses");
        found.push_back(std::move(target));
    }
    return found;
}

result<void> check_storage(const storage_settings& settings) {
    if (settings.policy != storage_policy::check && settings.interface.empty())
        return fail(code::invalid, "storage.policy needs storage.interface; write for example 'interface: ib0'");
    if (settings.policy == storage_policy::route && !settings.subnet)
        return fail(code::invalid,
                    "storage.policy 'route' needs storage.subnet; write for example 'subnet: 10.1.0.0/16'");
    if (settings.subnet && settings.subnet->length_bits < subnet_bits_min)
        return fail(code::invalid, "storage.subnet '" + format_prefix(*settings.subnet) +
                                       "' is more than a storage network; write for example 'subnet: 10.1.0.0/16'");
    return {};
}

}  // namespace varde
