// Mountinfo, and the path that is looked up in it: root reads both, and a user may write a line (FUSE) and the path.
//
// The first line is the path, the rest the table.
#include "prolog/mount_table.h"
#include "prolog/storage_servers.h"

#include <cstdint>
#include <cstdlib>

using namespace varde::node;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    const size_t end = bytes.find('\n');
    if (end == std::string_view::npos) return 0;
    const std::string_view path = bytes.substr(0, end);
    const auto mounts = parse_mounts(bytes.substr(end + 1));
    for (const mount_entry& each : mounts) {
        const auto servers = servers_of(each);
        if (servers.names.size() > 16 || (!servers.remote && !servers.names.empty())) std::abort();
        for (const std::string& name : servers.names)
            if (name.empty()) std::abort();
    }
    const auto found = find_mount(mounts, path);
    if (found && found->point != "/" && !holds(found->point, path)) std::abort();
    return 0;
}
