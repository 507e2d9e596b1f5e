// The host's mounts, of the text of /proc/self/mountinfo.  Pure: no path is touched, because a mount may hang.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace varde::node {

struct mount_entry {
    uint64_t id = 0;
    uint64_t parent = 0;
    std::string point;
    std::string type;     // "nfs4"
    std::string source;   // "10.1.0.5:/flash"; a user's own words where a user may mount (FUSE)
    std::string options;  // of the file system: "rw,addr=10.1.0.5"
};

// In the order of the text; a line of another form is left out.
std::vector<mount_entry> parse_mounts(std::string_view mountinfo);

// The value of "name=value" in a list of options; none where it is not there.
std::optional<std::string> option_of(const mount_entry& mount, std::string_view name);

// "/a" and "/" hold "/a/b"; "/a" does not hold "/ab".
bool holds(std::string_view directory, std::string_view path);

// The mount that a look-up of this absolute path, which has no links and no "..", ends in.  It goes from mount to
// mount as the kernel does, so that one that another covers is not taken.
std::optional<mount_entry> find_mount(const std::vector<mount_entry>& mounts, std::string_view path);

}  // namespace varde::node
