// Roots on mounts: see spread.h.
#include "store/spread.h"

#include "base/limits.h"
#include "store/files.h"
#include "store/names.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

namespace varde::store {

namespace {

constexpr size_t strays_told_max = 4;

// A mount point, open: what is made below it cannot land on another file system any more, whatever is unmounted later.
result<unique_fd> open_mount(const std::string& mount) {
    unique_fd fd(files::open_at(AT_FDCWD, mount.c_str(), O_RDONLY | O_DIRECTORY));
    if (!fd) return fail(code::io, os_error(errno, "couldn't use the mount '" + mount + "'").context);
    struct statx info {};
    if (::statx(fd.get(), "", AT_EMPTY_PATH, STATX_BASIC_STATS, &info) != 0)
        return os_error(errno, "couldn't look at the mount '" + mount + "'");
    bool is_root = (info.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
    if ((info.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) == 0) {  // Linux before 5.8
        struct stat own {
        }, parent{};
        if (::fstat(fd.get(), &own) != 0 || ::fstatat(fd.get(), "..", &parent, 0) != 0)
            return os_error(errno, "couldn't look at the mount '" + mount + "'");
        is_root = own.st_dev != parent.st_dev;
    }
    if (!is_root) return fail(code::io, "couldn't use '" + mount + "': nothing is mounted there on this node");
    return fd;
}

// A directory that nobody else can look into or fill.
result<unique_fd> make_private(int parent, const std::string& name, const std::string& path) {
    // A read-only or foreign parent may answer EROFS or EACCES before it says that the directory is there.
    const int refused = ::mkdirat(parent, name.c_str(), 0700) == 0 ? 0 : errno;
    result<unique_fd> fd = files::open_directory(parent, name, path);
    if (!fd && refused != 0 && refused != EEXIST) return os_error(refused, "couldn't create '" + path + "'");
    if (!fd) return fd;
    struct stat info {};
    if (::fstat(fd->get(), &info) != 0) return os_error(errno, "couldn't look at '" + path + "'");
    if (info.st_uid != ::geteuid())
        return fail(code::invalid, "couldn't use '" + path + "': it belongs to user id " + std::to_string(info.st_uid));
    if ((info.st_mode & 077) != 0)
        return fail(code::invalid, "couldn't use '" + path + "': its mode is not 0700, others may read or fill it");
    // Also where it was there: who made it may have died before this.
    if (const result<void> synced = files::sync(parent, path); !synced) return synced.error();
    return fd;
}

// "12345 /flash/anna/train\n"
result<std::string> owner_text(const run_home& run) {
    struct stat info {};
    if (::fstat(run.fd, &info) != 0) return os_error(errno, "couldn't look at '" + run.path + "'");
    const std::unique_ptr<char, decltype(&std::free)> real(::realpath(run.path.c_str(), nullptr), &std::free);
    if (!real) return os_error(errno, "couldn't find the path of '" + run.path + "'");
    return std::to_string(info.st_ino) + " " + real.get() + "\n";
}

// Whether the owner's text means this run, and nobody else: the path leads to this directory, and its inode is that of
// the directory that was there when the root was made.
result<bool> means(const std::string& text, const run_home& run) {
    const std::optional<root_owner> owner = parse_owner(text);
    struct stat named {
    }, opened{};
    if (!owner) return false;
    if (::fstat(run.fd, &opened) != 0) return os_error(errno, "couldn't look at '" + run.path + "'");
    if (::stat(owner->path.c_str(), &named) != 0) {
        if (errno == ENOENT || errno == ENOTDIR) return false;
        return os_error(errno, "couldn't look at '" + owner->path + "'");
    }
    return opened.st_ino == owner->inode && files::same_file(named, opened);
}

result<bool> is_ours(const run_home& run, int root, const std::string& root_path) {
    const result<std::string> text = files::read_text(root, std::string(owner_name), limits::path_bytes_max + 32UL,
                                                      root_path + "/" + std::string(owner_name));
    if (!text && text.error().what == code::not_found) return false;
    if (!text) return text.error();
    return means(*text, run);
}

// The id in the run's directory; `other_than` is one whose root belongs to another run, so that a new one is made.
result<std::string> take_id(const run_home& run, const std::string& other_than) {
    const std::string name(place_name);
    const std::string path = run.path + "/" + name;
    for (int attempt = 0; attempt < 2; ++attempt) {
        const result<std::string> text = files::read_text(run.fd, name, place_id_digits + 1, path);
        if (!text && text.error().what != code::not_found) return text.error();
        const std::string id = text ? text->substr(0, place_id_digits) : "";
        if (is_place_id(id) && id != other_than) return id;
        const std::string made = files::unique_name("") + files::unique_name("");
        const result<void> written = files::write_whole(run.fd, name, made + "\n", /*replace=*/text.has_value(), path);
        if (written) return made;
        if (written.error().os_errno != EEXIST) return written.error();  // EEXIST: another node was first
    }
    return fail(code::busy, "couldn't make '" + path + "': others make it all the time");
}

result<unique_fd> make_root_of(const run_home& run, const place& where) {
    const result<unique_fd> mount = open_mount(where.mount);
    if (!mount) return mount.error();
    const std::string name = owner_directory_name(where.owner);
    const result<unique_fd> owned = make_private(mount->get(), name, where.mount + "/" + name);
    if (!owned) return owned.error();
    result<unique_fd> root = make_private(owned->get(), where.id, where.root());
    if (!root) return root;
    const result<std::string> owner = owner_text(run);
    if (!owner) return owner.error();
    const result<void> written = files::write_whole(root->get(), std::string(owner_name), *owner, /*replace=*/false,
                                                    where.root() + "/" + std::string(owner_name));
    if (!written && written.error().os_errno != EEXIST) return written.error();
    const result<bool> ours = is_ours(run, root->get(), where.root());
    if (!ours) return ours.error();
    if (*ours) return root;
    return fail(code::mismatch, "couldn't use '" + where.root() + "': it belongs to another run, of which '" +
                                    run.path + "' is a copy, or to this one under the path that it had before");
}

// Empty directories under names of generations go; what else has no directory in the run is told of.
void tell_strays(const run_home& run, int root, const std::string& path, generation_id oldest,
                 std::vector<std::string>& told) {
    const result<std::vector<std::string>> names = files::read_names(root, path);
    if (!names) return told.push_back(names.error().context);
    for (const std::string& name : *names) {
        const result<generation_id> id = parse_generation_name(name);
        if (!id || *id >= oldest) continue;
        struct stat info {};
        const std::string retired = std::string(retired_prefix) + name;
        bool known = false;
        for (const std::string& each : {name, retired})
            known = known || ::fstatat(run.fd, each.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
        if (known || ::unlinkat(root, name.c_str(), AT_REMOVEDIR) == 0) continue;
        if (told.size() == strays_told_max) return;
        told.push_back("'" + path + "/" + name + "' has no directory in '" + run.path +
                       "' any more; delete it where nobody has a link to it");
    }
}

}  // namespace

result<bool> has_places(const run_home& run) {
    struct stat info {};
    if (::fstatat(run.fd, std::string(place_name).c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) return true;
    if (errno == ENOENT) return false;
    return os_error(errno, "couldn't look for '" + run.path + "/" + std::string(place_name) + "'");
}

result<unique_fd> make_root(const run_home& run, const std::string& mount, std::string* ret_id) {
    std::string other_than;
    for (int attempt = 0;; ++attempt) {
        result<std::string> id = take_id(run, other_than);
        if (!id) return std::move(id).error();
        const place where{mount, ::geteuid(), *id, {}, {}};
        result<unique_fd> root = make_root_of(run, where);
        *ret_id = std::move(*id);
        if (root || root.error().what != code::mismatch || attempt == 1) return root;
        other_than = *ret_id;
    }
}

result<removal> remove_there(const run_home& run, const std::vector<place>& packs) {
    const place& where = packs.front();
    const result<unique_fd> root = open_root(where);
    if (!root) return root.error();
    const result<bool> ours = is_ours(run, root->get(), where.root());
    if (!ours) return ours.error();
    if (!*ours) return removal::of_another;
    const std::string name = generation_name(where.generation);
    const result<unique_fd> directory = files::open_directory(root->get(), name, where.directory());
    if (!directory && directory.error().what == code::not_found) return removal::done;
    if (!directory) return directory.error();
    for (const place& pack : packs) {
        for (const std::string& file : {pack.pack, pack.pack + std::string(partial_suffix)}) {
            if (::unlinkat(directory->get(), file.c_str(), 0) != 0 && errno != ENOENT)
                return os_error(errno, "couldn't delete '" + where.directory() + "/" + file + "'");
        }
    }
    const bool emptied = ::unlinkat(root->get(), name.c_str(), AT_REMOVEDIR) == 0;
    if (!emptied && errno != ENOENT && errno != ENOTEMPTY && errno != EEXIST)
        return os_error(errno, "couldn't delete '" + where.directory() + "'");
    // The links go only after this: what is still there after a loss of power is still named.
    const result<void> synced = files::sync(emptied ? root->get() : directory->get(), where.directory());
    if (!synced) return synced.error();
    return removal::done;
}

std::vector<std::string> find_strays(const run_home& run, const std::vector<std::string>& mounts,
                                     generation_id oldest) {
    std::vector<std::string> told;
    const result<std::string> id = files::read_text(run.fd, std::string(place_name), place_id_digits + 1,
                                                    run.path + "/" + std::string(place_name));
    if (!id || !is_place_id(id->substr(0, place_id_digits))) return told;
    for (const std::string& mount : mounts) {
        const place where{mount, ::geteuid(), id->substr(0, place_id_digits), {}, {}};
        const result<unique_fd> root = open_root(where);
        if (!root) continue;  // no pack was ever written there, or it is not there now
        const result<bool> ours = is_ours(run, root->get(), where.root());
        if (ours && *ours) tell_strays(run, root->get(), where.root(), oldest, told);
    }
    return told;
}

}  // namespace varde::store
