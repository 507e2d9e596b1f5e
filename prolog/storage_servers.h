// Which machines serve a mounted file system, of what its mount says.  Pure.
#pragma once

#include "config/storage.h"
#include "prolog/mount_table.h"

#include <string>
#include <string_view>
#include <vector>

namespace varde::node {

struct storage_servers {
    bool remote = false;             // false: a file system of this machine
    bool by_user = false;            // a user has mounted it: the names are that user's words
    std::vector<std::string> names;  // addresses, or names to be looked up; empty: the mount names none
};

// NFS, SMB, Lustre, CephFS, and over FUSE sshfs and GlusterFS name servers.  GPFS, Weka, BeeGFS and their like do not.
// What Lustre and CephFS name are the servers that a mount begins with; those of the data are taken to be beside them.
storage_servers servers_of(const mount_entry& mount);

// The target with the longest path that holds this one; null: none does.
const storage_target* target_of(const std::vector<storage_target>& targets, std::string_view path);

}  // namespace varde::node
