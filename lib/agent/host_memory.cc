// Control groups are a tree, and each one above ours may be the one that is small.
#include "agent/host_memory.h"

#include "base/units.h"
#include "store/files.h"

#include <algorithm>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>

namespace varde::agent {

namespace {

constexpr size_t text_bytes_max = 64 << 10;

// Empty where there is no such file.
std::string text_of(const std::string& path) {
    auto text = store::files::read_text(AT_FDCWD, path, text_bytes_max, path);
    return text ? std::move(*text) : std::string();
}

// "max", and what version 1 writes for it, are larger than any node.
uint64_t limit_in(const std::string& path) {
    std::string text = text_of(path);
    text.erase(std::min(text.find('\n'), text.size()));
    const auto bytes = parse_number(text);
    return bytes ? *bytes : UINT64_MAX;
}

// From the group up to the mount.  In a container a path may name what is not mounted there; then the mount itself is
// the container's group.
uint64_t smallest_limit(const std::string& mount, std::string group, const char* file) {
    uint64_t least = limit_in(mount + "/" + file);
    while (group.size() > 1) {
        least = std::min(least, limit_in(mount + group + "/" + file));
        group.erase(group.rfind('/'));
    }
    return least;
}

bool has_controller(std::string_view list, std::string_view wanted) {
    while (!list.empty()) {
        const size_t end = std::min(list.find(','), list.size());
        if (list.substr(0, end) == wanted) return true;
        list.remove_prefix(std::min(end + 1, list.size()));
    }
    return false;
}

}  // namespace

uint64_t usable_memory_bytes(const std::string& root) {
    uint64_t least = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    // A line is "hierarchy:controllers:/group"; version 2 is hierarchy 0, without controllers (cgroups(7)).
    const std::string lines = text_of(root + "/proc/self/cgroup");
    for (size_t begin = 0, end = 0; begin < lines.size(); begin = end + 1) {
        end = std::min(lines.find('\n', begin), lines.size());
        const std::string line = lines.substr(begin, end - begin);
        const size_t first = line.find(':');
        const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        const std::string group = line.substr(second + 1);
        if (group.empty() || group[0] != '/') continue;
        if (controllers.empty()) least = std::min(least, smallest_limit(root + "/sys/fs/cgroup", group, "memory.max"));
        else if (has_controller(controllers, "memory"))
            least = std::min(least, smallest_limit(root + "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
    }
    return least;
}

}  // namespace varde::agent
