// Where a pack begins: its name is free, its place is chosen, its room is reserved.
//
// Without mounts that is the generation's directory.  With mounts the places are tried in turn, the directory last: a
// mount that is away, full or somebody else's costs a detour, never the checkpoint.
#include "base/units.h"
#include "store/files.h"
#include "store/names.h"
#include "store/spread.h"
#include "store/store.h"

#include <cerrno>
#include <sys/statvfs.h>
#include <unistd.h>

namespace varde::store {

namespace {

failure no_space(int fd, int os_errno, uint64_t needed, const std::string& path) {
    struct statvfs space {};
    const bool known = ::fstatvfs(fd, &space) == 0;
    const uint64_t free_bytes = static_cast<uint64_t>(space.f_bavail) * space.f_frsize;
    const char* limit = os_errno == EDQUOT ? "the quota is used up" : "the file system is full";
    std::string text = "couldn't reserve '" + path + "': " + limit + ", " + format_bytes(needed) + " needed";
    if (known) text += ", " + format_bytes(free_bytes) + " free";
    text += "; delete files there, keep fewer checkpoints (--ckpt-keep) or choose another directory";
    return failure{code::no_space, os_errno, std::move(text)};
}

// Reserves room, so that a full file system is known before the copy instead of in the middle of it.
result<void> reserve(int fd, uint64_t size_bytes, const std::string& path) {
    int refused = 0;
    do refused = ::fallocate(fd, 0, 0, static_cast<off_t>(size_bytes)) == 0 ? 0 : errno;
    while (refused == EINTR);
    if (refused == 0) return {};
    if (refused == ENOSPC || refused == EDQUOT) return no_space(fd, refused, size_bytes, path);
    if (refused != EOPNOTSUPP && refused != ENOSYS && refused != EINVAL)
        return os_error(refused, "couldn't reserve '" + path + "'");
    // No reservation here (NFS 3, for one).  What the file system says about its room is a guess, but a better one than
    // none.  Some have no idea of their size, and say 0.
    struct statvfs space {};
    if (::fstatvfs(fd, &space) == 0 && space.f_blocks > 0 &&
        static_cast<uint64_t>(space.f_bavail) * space.f_frsize < size_bytes)
        return no_space(fd, ENOSPC, size_bytes, path);
    return {};
}

// The generation's directory, made where missing.  Any node may be the first.
result<unique_fd> make_generation(int parent, const std::string& parent_path, const std::string& name) {
    if (::mkdirat(parent, name.c_str(), 0700) == 0) {
        if (const result<void> synced = files::sync(parent, parent_path); !synced) return synced.error();
    } else if (errno != EEXIST) {
        return os_error(errno, "couldn't create '" + parent_path + "/" + name + "'");
    }
    return files::open_directory(parent, name, parent_path + "/" + name);
}

// What an agent of this node left when it died.  One that still writes to it does so into a file without a name.
result<void> remove_leftover(const run_home& run, int directory, const std::string& partial, const std::string& path,
                             generation_id id) {
    const result<std::optional<std::string>> link = read_link(directory, partial, path);
    if (!link) return link.error();
    const std::optional<place> where = *link ? parse_place(**link) : std::nullopt;
    if (where && where->generation == id && (where->owner != ::geteuid() || !remove_there(run, {*where}))) {
        // What is there cannot be reached now.  The link stays under another name, for retire().
        if (::renameat(directory, partial.c_str(), directory, files::unique_name(left_prefix).c_str()) == 0) return {};
        return os_error(errno, "couldn't rename the old '" + path + "'");
    }
    if (::unlinkat(directory, partial.c_str(), 0) != 0 && errno != ENOENT)
        return os_error(errno, "couldn't remove the old '" + path + "'");
    return {};
}

// What dead agents left is gone.  What is there now has no link in this generation: the one who has renamed that may
// want it, and a roster that was deleted has begun to count anew.
result<void> expect_nothing(int root, const place& where) {
    const std::string path = generation_name(where.generation) + "/" + where.pack;
    struct stat info {};
    for (const std::string& file : {path, path + std::string(partial_suffix)}) {
        if (::fstatat(root, file.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0)
            return fail(code::io, "couldn't create '" + where.root() + "/" + file +
                                      "': it is there, and the run has no link to it any more");
        if (errno != ENOENT) return os_error(errno, "couldn't look for '" + where.root() + "/" + file + "'");
    }
    return {};
}

failure joined(failure last, const std::optional<failure>& first) {
    if (first) last.context += "; before that, " + first->context;
    return last;
}

}  // namespace

// The file, in the directory that is open.  On failure the destructor takes it away: what was reserved is free again.
result<void> pack_file::create() {
    const std::string partial = partial_name();
    fd_.reset(files::open_direct_at(directory_.get(), partial.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600,
                                    &direct_));
    if (!fd_ && (errno == ENOSPC || errno == EDQUOT)) return no_space(directory_.get(), errno, size_bytes_, path_);
    if (!fd_) return os_error(errno, "couldn't create '" + path_ + "'");
    return reserve(fd_.get(), size_bytes_, path_);
}

// The link first, durable, then the file.
result<void> pack_file::create_on(const run_home& run, const std::string& mount, generation_id id) {
    place where{mount, ::geteuid(), {}, id, name_};
    result<unique_fd> root = make_root(run, mount, &where.id);
    if (!root) return std::move(root).error();
    if (const result<void> free = expect_nothing(root->get(), where); !free) return free;
    // Its links name the same files, and go with them.
    const std::string retired = std::string(retired_prefix) + generation_name(id);
    if (struct stat info{}; ::fstatat(run.fd, retired.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT)
        return fail(code::io, "couldn't create '" + where.text() + "': an earlier generation of that name, '" +
                                  run.path + "/" + retired + "', is still to be deleted there");
    linked to{std::move(directory_), std::move(*root), where.text(), generation_name(id)};
    const std::string link_path = path_;
    path_ = where.text() + std::string(partial_suffix);
    if (::symlinkat(to.target.c_str(), to.home.get(), partial_name().c_str()) != 0)
        return os_error(errno, "couldn't make the link '" + link_path + "'");
    link_ = std::move(to);
    if (result<void> synced = files::sync(link_->home.get(), link_path); !synced) return synced;
    result<unique_fd> there = make_generation(link_->root.get(), where.root(), link_->generation);
    if (!there) return std::move(there).error();
    directory_ = std::move(*there);
    return create();
}

result<pack_file> run_directory::create_pack(generation_id id, uint32_t node_index, uint32_t node_count,
                                             uint64_t size_bytes, uint32_t attempt) {
    const std::string name = pack_name(node_index, node_count);
    if (!parse_pack_name(name) || size_bytes == 0 || size_bytes > INT64_MAX)
        return fail(code::invalid, "couldn't create a pack of node " + std::to_string(node_index) + " of " +
                                       std::to_string(node_count) + " with " + std::to_string(size_bytes) + " bytes");
    const std::string generation = generation_name(id);
    const run_home run{fd_.get(), path_};
    const size_t place_count = mounts_.size() + 1;
    std::optional<failure> first;  // of the places that were tried
    for (size_t tried = 0;; ++tried) {
        result<unique_fd> directory = make_generation(fd_.get(), path_, generation);
        if (!directory) return std::move(directory).error();
        pack_file made;
        made.directory_ = std::move(*directory);
        made.name_ = name;
        made.path_ = path_ + "/" + generation + "/" + name + std::string(partial_suffix);
        made.size_bytes_ = size_bytes;
        struct stat info {};
        if (::fstatat(made.directory_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0)
            return fail(code::busy, "couldn't create '" + made.path_ + "': this pack is sealed already");
        if (errno != ENOENT) return os_error(errno, "couldn't look for '" + made.path_ + "'");
        if (const result<void> removed =
                remove_leftover(run, made.directory_.get(), made.partial_name(), made.path_, id);
            !removed)
            return removed.error();
        const size_t turn = (attempt + tried) % place_count;
        result<void> created = turn == mounts_.size()
                                   ? made.create()
                                   : made.create_on(run, mounts_[(node_index + turn) % mounts_.size()], id);
        if (created) {
            made.detour_ = std::move(first);
            return made;
        }
        if (tried + 1 == place_count) return joined(std::move(created).error(), first);
        if (!first) first = std::move(created).error();
    }
}

}  // namespace varde::store
