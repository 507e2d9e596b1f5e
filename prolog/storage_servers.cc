// Every file system writes its servers in another way.
#include "prolog/storage_servers.h"

#include "base/fields.h"

#include <algorithm>

namespace varde::node {

namespace {

constexpr size_t names_max = 16;  // a mount with more is of one network all the same

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

void add(std::vector<std::string>& names, std::string_view name) {
    const bool known = std::find(names.begin(), names.end(), name) != names.end();
    if (!name.empty() && !known && names.size() < names_max) names.emplace_back(name);
}

// What stands in front of ":path" or ":port": "host", "[fd00::1]" without its brackets.
std::string_view host_of(std::string_view text) {
    if (!text.starts_with('[')) return text.substr(0, text.find(':'));
    text.remove_prefix(1);
    return text.substr(0, text.find(']'));
}

// "anna@host:path" of sshfs, "host,host:/volume" of GlusterFS, "host:/export" of NFS.
std::vector<std::string> hosts_of_source(std::string_view source, bool with_user) {
    std::vector<std::string> names;
    const size_t user = with_user ? source.find('@') : std::string_view::npos;
    if (user < source.find(':')) source.remove_prefix(user + 1);
    if (source.starts_with('/') || source.find(':') == std::string_view::npos) return names;
    if (source.starts_with('[')) {
        add(names, host_of(source));
        return names;
    }
    for (const auto each : split(source.substr(0, source.find(':')), ',')) add(names, each);
    return names;
}

// "10.1.0.5@o2ib,10.2.0.5@tcp1:10.1.0.6@o2ib:/scratch": an address ends at its '@', because version 6 has colons.
std::vector<std::string> lustre_hosts(std::string_view source) {
    std::vector<std::string> names;
    source = source.substr(0, source.find(":/"));
    while (!source.empty()) {
        const size_t at = source.find('@');
        if (at == std::string_view::npos) break;
        add(names, source.substr(0, at));
        source.remove_prefix(at);
        source.remove_prefix(std::min(source.find_first_of(",:"), source.size() - 1) + 1);
    }
    return names;
}

// Monitors: "10.1.0.5:6789,10.1.0.6:6789:/" as source, or "anna@FSID.name=/" with mon_addr=10.1.0.5:3300/10.1.0.6.
std::vector<std::string> ceph_hosts(const mount_entry& mount) {
    std::vector<std::string> names;
    const auto monitors = option_of(mount, "mon_addr");
    if (monitors) {
        for (const auto each : split(*monitors, '/')) add(names, host_of(each));
        return names;
    }
    if (mount.source.find('=') != std::string::npos) return names;
    const std::string_view source(mount.source);
    for (const auto each : split(source.substr(0, source.find(":/")), ',')) add(names, host_of(each));
    return names;
}

// The kernel's own answer, where the source may be a name.
std::vector<std::string> address_or(const mount_entry& mount, std::vector<std::string> names) {
    const auto address = option_of(mount, "addr");
    return address && !address->empty() ? std::vector<std::string>{*address} : std::move(names);
}

std::vector<std::string> smb_hosts(std::string_view source) {
    std::vector<std::string> names;
    if (!source.starts_with("//")) return names;
    source.remove_prefix(2);
    add(names, source.substr(0, source.find('/')));
    return names;
}

}  // namespace

storage_servers servers_of(const mount_entry& mount) {
    storage_servers found;
    found.remote = true;
    const auto user = option_of(mount, "user_id");
    found.by_user = mount.type.starts_with("fuse") && user && *user != "0";
    if (is_one_of(mount.type, {"nfs", "nfs4"})) found.names = address_or(mount, hosts_of_source(mount.source, false));
    else if (is_one_of(mount.type, {"cifs", "smb3"})) found.names = address_or(mount, smb_hosts(mount.source));
    else if (mount.type == "lustre") found.names = lustre_hosts(mount.source);
    else if (mount.type == "ceph") found.names = ceph_hosts(mount);
    else if (mount.type == "fuse.sshfs") found.names = hosts_of_source(mount.source, true);
    else if (mount.type == "fuse.glusterfs") found.names = hosts_of_source(mount.source, false);
    else
        found.remote = is_one_of(mount.type, {"gpfs", "wekafs", "beegfs", "panfs", "orangefs", "fuse.ceph",
                                              "fuse.ceph-fuse", "fuse.dfuse", "fuse.juicefs", "fuse.s3fs"});
    return found;
}

const storage_target* target_of(const std::vector<storage_target>& targets, std::string_view path) {
    const storage_target* found = nullptr;
    for (const storage_target& each : targets)
        if (holds(each.path, path) && (found == nullptr || each.path.size() > found->path.size())) found = &each;
    return found;
}

}  // namespace varde::node
