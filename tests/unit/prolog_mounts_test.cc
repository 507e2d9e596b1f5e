// Lines of mountinfo as real hosts have them, and the servers that they name.
#include "prolog/mount_table.h"
#include "prolog/storage_servers.h"

#include <criterion/criterion.h>

using namespace varde;
using namespace varde::node;

static mount_entry parsed(const std::string& line) {
    const auto mounts = parse_mounts(line + "\n");
    cr_assert_eq(mounts.size(), 1, "%s", line.c_str());
    return mounts.front();
}

static std::string joined(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
    return text;
}

Test(mounts, reads_the_fields_of_a_line) {
    const auto mount = parsed(
        "612 31 0:57 / /flash\\040tier\\134x rw,relatime shared:328 master:7 - nfs4 10.1.0.5:/export/a\\040b "
        "rw,vers=4.2,rsize=1048576,hard,proto=tcp,timeo=600,clientaddr=10.1.0.77,local_lock=none,addr=10.1.0.5");
    cr_assert(mount.id == 612 && mount.parent == 31 && mount.point == "/flash tier\\x" && mount.type == "nfs4");
    cr_assert(mount.source == "10.1.0.5:/export/a b");
    cr_assert(*option_of(mount, "addr") == "10.1.0.5" && *option_of(mount, "vers") == "4.2");
    cr_assert(!option_of(mount, "hard") && !option_of(mount, "ad") && !option_of(mount, "client"));
    cr_assert(parsed("36 25 0:31 / /x rw - tmpfs  rw").source.empty(), "a source of no characters");
    for (const char* bad :
         {"", "garbage", "36 25 0:31 / /x rw shared:1", "a 25 0:31 / /x rw - tmpfs t rw",
          "36 -1 0:31 / /x rw - tmpfs t rw", "36 25 0:31 / x rw - tmpfs t rw", "1 2 3 - a b c", " - "})
        cr_assert(parse_mounts(bad).empty(), "%s", bad);
}

static const char* const real_lines[][4] = {
    // what the line is, the line, the servers, and how
    {"nfs3 by name",
     "91 25 0:46 / /home rw,relatime shared:44 - nfs filer.cluster.example:/vol/home rw,vers=3,rsize=65536,hard,"
     "proto=tcp,mountaddr=10.9.0.9,mountvers=3,mountport=635,mountproto=udp,addr=10.9.0.3",
     "10.9.0.3", "remote"},
    {"nfs4 without addr=", "92 25 0:47 / /s rw - nfs4 filer:/ rw,vers=4.1", "filer", "remote"},
    {"nfs4 over version 6",
     "93 25 0:48 /a /s rw - nfs4 [fd00:1::5]:/export rw,vers=4.2,clientaddr=fd00:1::77,addr=fd00:1::5", "fd00:1::5",
     "remote"},
    {"nfs4 over version 6 without addr=", "94 25 0:48 / /s rw - nfs4 [fd00:1::5]:/export rw", "fd00:1::5", "remote"},
    {"lustre with failover",
     "95 25 0:49 / /scratch rw,flock,lazystatfs - lustre 10.1.0.11@o2ib,10.2.0.11@tcp1:10.1.0.12@o2ib,10.2.0.12@tcp1:"
     "/scratch rw,flock,lazystatfs",
     "10.1.0.11 10.2.0.11 10.1.0.12 10.2.0.12", "remote"},
    {"lustre of one server", "96 25 0:50 / /l rw - lustre 10.1.0.11@tcp:/lfs/sub rw", "10.1.0.11", "remote"},
    {"lustre by name", "97 25 0:50 / /l rw - lustre mgs1@tcp:mgs2@tcp:/lfs rw", "mgs1 mgs2", "remote"},
    {"lustre over version 6", "98 25 0:50 / /l rw - lustre fd00::11@tcp:fd00::12@tcp:/lfs rw", "fd00::11 fd00::12",
     "remote"},
    {"cephfs of old", "99 25 0:51 / /c rw - ceph 10.1.0.21:6789,10.1.0.22:6789,[fd00::23]:6789:/v rw,name=a,acl",
     "10.1.0.21 10.1.0.22 fd00::23", "remote"},
    {"cephfs of today",
     "100 25 0:51 / /c rw - ceph anna@9b0c8b6e-77f8-11ee-9f3a-5254005d0b8a.cephfs=/v "
     "rw,secret=<hidden>,fsid=9b0c8b6e-77f8-11ee-9f3a-5254005d0b8a,acl,mon_addr=10.1.0.21:3300/10.1.0.22:3300",
     "10.1.0.21 10.1.0.22", "remote"},
    {"cephfs that names none", "101 25 0:51 / /c rw - ceph anna@.cephfs=/v rw", "", "remote"},
    {"smb", "102 25 0:52 / /w rw - cifs //filer/share rw,vers=3.1.1,username=a,addr=10.9.0.3,file_mode=0755",
     "10.9.0.3", "remote"},
    {"smb without addr=", "103 25 0:52 / /w rw - smb3 //filer/share/sub rw", "filer", "remote"},
    {"sshfs of root",
     "104 25 0:53 / /f rw,nosuid,nodev,relatime - fuse.sshfs anna@10.1.0.31:/flash "
     "rw,user_id=0,group_id=0,default_permissions,allow_other",
     "10.1.0.31", "remote"},
    {"sshfs of a user", "105 25 0:53 / /f rw - fuse.sshfs evil.example: rw,user_id=1000,group_id=1000", "evil.example",
     "by user"},
    {"sshfs over version 6", "106 25 0:53 / /f rw - fuse.sshfs anna@[fd00::31]:/a@b rw,user_id=0", "fd00::31",
     "remote"},
    {"sshfs with an @ in its path", "107 25 0:53 / /f rw - fuse.sshfs host:/a@b rw,user_id=0", "host", "remote"},
    {"glusterfs", "108 25 0:54 / /g rw - fuse.glusterfs g1:/vol rw,user_id=0,allow_other,max_read=131072", "g1",
     "remote"},
    {"glusterfs of several", "109 25 0:54 / /g rw - fuse.glusterfs 10.1.0.41,10.1.0.42:vol rw,user_id=0",
     "10.1.0.41 10.1.0.42", "remote"},
    {"gpfs", "110 25 0:55 / /gpfs/fs1 rw,relatime - gpfs fs1 rw,relatime", "", "remote"},
    {"weka",
     "111 25 0:56 / /weka rw - wekafs 10.1.0.51/default rw,writecache,inode_bits=auto,dentry_max_age_positive=0", "",
     "remote"},
    {"beegfs", "112 25 0:57 / /beegfs rw - beegfs beegfs_nodev rw,cfgFile=/etc/beegfs/beegfs-client.conf,_netdev", "",
     "remote"},
    {"ext4", "25 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro", "", "local"},
    {"xfs", "113 25 253:0 / /local rw - xfs /dev/mapper/vg-a:b rw,addr=10.0.0.1", "", "local"},
    {"overlay", "114 25 0:58 / / rw - overlay overlay rw,lowerdir=/a:/b,upperdir=/u,workdir=/w", "", "local"},
    {"tmpfs", "115 25 0:59 / /dev/shm rw - tmpfs host:/x rw,size=1g", "", "local"},
    {"a user's file in an archive", "116 25 0:60 / /a rw - fuse.squashfuse squashfuse ro,user_id=1000", "", "local"},
    {"an nfs mount from nowhere", "117 25 0:60 / /a rw - nfs /x rw", "", "remote"},
};

Test(mounts, names_the_servers_of_what_real_hosts_mount) {
    for (const auto& [what, line, servers, how] : real_lines) {
        const auto found = servers_of(parsed(line));
        cr_assert(joined(found.names) == servers, "%s: '%s'", what, joined(found.names).c_str());
        const std::string is = found.by_user ? "by user" : found.remote ? "remote" : "local";
        // Who mounted it says nothing of a file system that has no servers.
        cr_assert(is == how || (found.names.empty() && !found.remote && std::string(how) == "local"), "%s: %s", what,
                  is.c_str());
    }
}

Test(mounts, a_mount_of_many_servers_is_cut) {
    std::string source = "0.0.0.0@tcp";
    for (int i = 1; i < 100; i++) source += ":0.0.0." + std::to_string(i) + "@tcp";
    cr_assert_eq(servers_of(parsed("1 0 0:1 / / rw - lustre " + source + ":/l rw")).names.size(), 16);
}

static const char* const table =
    "25 1 259:2 / / rw shared:1 - ext4 /dev/sda1 rw\n"
    "30 25 0:30 / /a rw - nfs4 one:/ rw\n"
    "31 30 0:31 / /a/b rw - nfs4 two:/ rw\n"
    "32 25 0:32 / /ab rw - nfs4 three:/ rw\n"
    "33 25 0:33 / /c/d rw - nfs4 hidden:/ rw\n"
    "34 25 0:34 / /c rw - nfs4 over:/ rw\n"
    "35 25 0:35 / /e rw - nfs4 below:/ rw\n"
    "36 35 0:36 / /e rw - nfs4 upon:/ rw\n";

static std::string source_of(const std::string& path) {
    const auto found = find_mount(parse_mounts(table), path);
    cr_assert(found.has_value());
    return found->source;
}

Test(mounts, finds_the_mount_as_the_kernel_does) {
    cr_assert(source_of("/") == "/dev/sda1" && source_of("/x/a") == "/dev/sda1");
    cr_assert(source_of("/a") == "one:/" && source_of("/a/c") == "one:/" && source_of("/a/bc") == "one:/");
    cr_assert(source_of("/a/b") == "two:/" && source_of("/a/b/x/y") == "two:/");
    cr_assert(source_of("/ab/x") == "three:/");
    cr_assert(source_of("/c/d/x") == "over:/", "what is covered is not there");
    cr_assert(source_of("/e/x") == "upon:/", "the upper one of two in one place");
}

Test(mounts, a_table_that_makes_no_sense_ends_the_walk) {
    cr_assert(!find_mount({}, "/a").has_value());
    cr_assert(!find_mount(parse_mounts("30 25 0:30 / /a rw - nfs4 one:/ rw\n"), "/a").has_value(), "no root");
    const auto circle =
        parse_mounts("1 1 0:1 / / rw - ext4 x rw\n2 3 0:1 / /a rw - ext4 x rw\n3 2 0:1 / /a rw - a b c\n");
    cr_assert(find_mount(circle, "/a")->id == 1);
    const auto round = parse_mounts("1 9 0:1 / / rw - ext4 x rw\n2 1 0:1 / /a rw - a b c\n1 2 0:1 / /a rw - a b c\n");
    cr_assert(find_mount(round, "/a/b").has_value());
}

Test(mounts, the_longest_target_counts) {
    const std::vector<storage_target> targets{
        {"/weka", {*parse_address("10.1.0.5")}}, {"/weka/a/", {*parse_address("10.1.0.6")}}, {"/", {}}};
    cr_assert(target_of(targets, "/weka/b") == &targets[0]);
    cr_assert(target_of(targets, "/weka/a") == &targets[1] && target_of(targets, "/weka/a/b") == &targets[1]);
    cr_assert(target_of(targets, "/wekas") == &targets[2]);
    cr_assert(target_of({}, "/weka") == nullptr);
}
