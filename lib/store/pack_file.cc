// A pack on its way: room reserved, written under a .partial name, sealed by a rename.
//
// The name is the verdict: a reader takes a pack under its final name for whole.  So nothing gets that name unless
// every byte was synced, and only the file that this object has open: after an agent died, its successor may have begun
// the same pack anew while a write of the first still hangs in the kernel.
#include "base/units.h"
#include "store/files.h"
#include "store/names.h"
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
result<unique_fd> make_generation(int run, const std::string& run_path, const std::string& name) {
    if (::mkdirat(run, name.c_str(), 0700) == 0) {
        if (const result<void> synced = files::sync(run, run_path); !synced) return synced.error();
    } else if (errno != EEXIST) {
        return os_error(errno, "couldn't create '" + run_path + "/" + name + "'");
    }
    return files::open_directory(run, name, run_path + "/" + name);
}

}  // namespace

result<pack_file> run_directory::create_pack(generation_id id, uint32_t node_index, uint32_t node_count,
                                             uint64_t size_bytes) {
    const std::string name = pack_name(node_index, node_count);
    if (!parse_pack_name(name) || size_bytes == 0 || size_bytes > INT64_MAX)
        return fail(code::invalid, "couldn't create a pack of node " + std::to_string(node_index) + " of " +
                                       std::to_string(node_count) + " with " + std::to_string(size_bytes) + " bytes");
    const std::string generation = generation_name(id);
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
    const std::string partial = made.partial_name();
    // What an agent of this node left when it died.  One that still writes to it does so into a file without a name.
    if (::unlinkat(made.directory_.get(), partial.c_str(), 0) != 0 && errno != ENOENT)
        return os_error(errno, "couldn't remove the old '" + made.path_ + "'");
    made.fd_.reset(files::open_direct_at(made.directory_.get(), partial.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW,
                                         0600, &made.direct_));
    if (!made.fd_ && (errno == ENOSPC || errno == EDQUOT))
        return no_space(made.directory_.get(), errno, size_bytes, made.path_);
    if (!made.fd_) return os_error(errno, "couldn't create '" + made.path_ + "'");
    // On failure the destructor takes the .partial away: what was reserved is free again.
    if (result<void> reserved = reserve(made.fd_.get(), size_bytes, made.path_); !reserved)
        return std::move(reserved).error();
    return made;
}

result<unique_fd> run_directory::open_pack(generation_id id, uint32_t node_index, uint32_t node_count,
                                           uint64_t* ret_size_bytes) const {
    const std::string generation = generation_name(id);
    const std::string name = pack_name(node_index, node_count);
    const std::string path = path_ + "/" + generation + "/" + name;
    const result<unique_fd> directory = files::open_directory(fd_.get(), generation, path_ + "/" + generation);
    if (!directory) return directory.error();
    bool direct = false;
    unique_fd fd(files::open_direct_at(directory->get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, &direct));
    if (!fd) return os_error(errno, "couldn't open the pack '" + path + "'");
    struct stat info {};
    if (::fstat(fd.get(), &info) != 0) return os_error(errno, "couldn't look at the pack '" + path + "'");
    if (!S_ISREG(info.st_mode))
        return fail(code::damaged, "couldn't use the pack '" + path + "': it is not a regular file");
    // It has kept a FIFO from blocking us; io_uring would take it to mean "fail instead of waiting for the disk".
    if (::fcntl(fd.get(), F_SETFL, direct ? O_DIRECT : 0) != 0)
        return os_error(errno, "couldn't set up the pack '" + path + "'");
    *ret_size_bytes = static_cast<uint64_t>(info.st_size);
    return fd;
}

result<void> run_directory::sync_generation(generation_id id) const {
    const std::string path = path_ + "/" + generation_name(id);
    const result<unique_fd> directory = files::open_directory(fd_.get(), generation_name(id), path);
    return directory ? files::sync(directory->get(), path) : directory.error();
}

std::string pack_file::partial_name() const { return name_ + std::string(partial_suffix); }

bool pack_file::is_still_ours() const noexcept {
    struct stat named {
    }, opened{};
    return ::fstatat(directory_.get(), partial_name().c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           ::fstat(fd_.get(), &opened) == 0 && files::same_file(named, opened);
}

void pack_file::abandon() noexcept {
    if (!fd_) return;
    if (is_still_ours())
        discard(::unlinkat(directory_.get(), partial_name().c_str(), 0), "retire() removes what is left");
    fd_.reset();
}

result<void> pack_file::failed(failure why) noexcept {
    abandon();
    return why;
}

result<void> pack_file::use_buffered() {
    if (direct_ && !files::clear_direct(fd_.get()))
        return os_error(errno, "couldn't leave O_DIRECT for '" + path_ + "'");
    direct_ = false;
    return {};
}

result<void> pack_file::seal() {
    if (!fd_) return fail(code::internal, "couldn't seal '" + path_ + "': it failed before, or is sealed already");
    if (result<void> synced = files::sync(fd_.get(), path_); !synced) return failed(std::move(synced).error());
    struct stat info {};
    if (::fstat(fd_.get(), &info) != 0) return failed(os_error(errno, "couldn't look at '" + path_ + "'"));
    if (static_cast<uint64_t>(info.st_size) != size_bytes_) {
        return failed(fail(code::io, "couldn't seal '" + path_ + "': it has " + std::to_string(info.st_size) +
                                         " bytes instead of " + std::to_string(size_bytes_)));
    }
    // Between this look and the rename only a process of the same node and user could change the name, and it does so
    // once, when it starts.
    if (!is_still_ours())
        return failed(
            fail(code::fenced, "couldn't seal '" + path_ + "': another process has begun it anew, or removed it"));
    const int refused = files::rename_new(directory_.get(), partial_name().c_str(), name_.c_str());
    if (refused != 0) return failed(os_error(refused, "couldn't seal '" + path_ + "'"));
    fd_.reset();
    result<void> synced = files::sync(directory_.get(), path_);
    // The name is the verdict, and this one may be gone with the next loss of power.
    if (!synced) discard(::unlinkat(directory_.get(), name_.c_str(), 0), "the failure is what is told");
    return synced;
}

pack_file::~pack_file() { abandon(); }
pack_file::pack_file(pack_file&&) noexcept = default;
pack_file& pack_file::operator=(pack_file&& other) noexcept {
    if (this == &other) return *this;
    abandon();
    directory_ = std::move(other.directory_);
    fd_ = std::move(other.fd_);
    name_ = std::move(other.name_);
    path_ = std::move(other.path_);
    size_bytes_ = other.size_bytes_;
    direct_ = other.direct_;
    return *this;
}

}  // namespace varde::store
