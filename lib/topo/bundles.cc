// /sys/class/net/bond0/lower_ens1f0 and /sys/class/block/md0/slaves/nvme0n1 are links to what is below.
#include "topo/bundles.h"

#include <algorithm>
#include <filesystem>
#include <set>

namespace varde::topo {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view lower = "lower_";

// Sorted, because folders are not.  What cannot be read has none.
std::set<std::string> entries_of(const fs::path& folder) {
    std::set<std::string> names;
    std::error_code why;
    for (fs::directory_iterator each(folder, why); !why && each != fs::directory_iterator(); each.increment(why))
        names.insert(each->path().filename());
    return names;
}

std::set<std::string> below(const std::string& root, const std::string& name) {
    std::set<std::string> names = entries_of(root + "/sys/class/block/" + name + "/slaves");
    for (const std::string& each : entries_of(root + "/sys/class/net/" + name))
        if (each.starts_with(lower)) names.insert(each.substr(lower.size()));
    return names;
}

// Down to the machine's own devices; a VLAN may stand on a bond, and that on two interfaces.
std::vector<std::string> parts_of(const machine& in, const std::string& root, const std::string& name) {
    std::set<std::string> parts;
    std::set<std::string> seen;
    std::vector<std::string> left{name};
    while (!left.empty()) {
        const std::string next = left.back();
        left.pop_back();
        if (find_device(in, next) != nullptr) parts.insert(next);
        else if (seen.insert(next).second)
            for (const std::string& each : below(root, next)) left.push_back(each);
    }
    return {parts.begin(), parts.end()};
}

}  // namespace

void find_bundles(machine& to, const std::string& root) {
    for (const char* kind : {"net", "block"}) {
        for (const std::string& name : entries_of(root + "/sys/class/" + kind)) {
            if (!is_device_name(name) || find_device(to, name) != nullptr) continue;
            std::vector<std::string> parts = parts_of(to, root, name);
            if (!parts.empty()) to.bundles.push_back({name, std::move(parts)});
        }
    }
}

}  // namespace varde::topo
