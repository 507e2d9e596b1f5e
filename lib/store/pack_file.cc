// A pack on its way: room reserved, written under a .partial name, sealed by a rename.
//
// The name is the verdict: a reader takes a pack under its final name for whole.  So nothing gets that name unless
// every byte was synced, and only the file that this object has open: after an agent died, its successor may have begun
// the same pack anew while a write of the first still hangs in the kernel.
#include "store/files.h"
#include "store/names.h"
#include "store/place.h"
#include "store/store.h"

#include <cerrno>
#include <unistd.h>
#include <utility>

namespace varde::store {

namespace {

// An open file of a pack, and its path for messages.
struct found_pack {
    unique_fd fd;
    std::string path;
    bool direct = false;
};

result<uid_t> owner_of(int fd, const std::string& path) {
    struct stat info {};
    if (::fstat(fd, &info) != 0) return os_error(errno, "couldn't look at '" + path + "'");
    return info.st_uid;
}

// Where the link under a pack's name leads; nothing for a file.
result<std::optional<place>> follow(int directory, const std::string& name, const std::string& path, generation_id id) {
    const result<std::optional<std::string>> link = read_link(directory, name, path);
    if (!link) return link.error();
    if (!*link) return std::optional<place>();
    const result<uid_t> owner = owner_of(directory, path);
    if (!owner) return owner.error();
    const result<place> where = parse_link(**link, path, id, name, *owner);
    if (!where) return where.error();
    return std::optional(*where);
}

result<found_pack> open_file(int directory, const std::string& name, const std::string& path, generation_id id) {
    const auto open = [&](int at, const std::string& shown) {
        found_pack found{unique_fd(), shown, false};
        found.fd.reset(files::open_direct_at(at, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, &found.direct));
        return found;
    };
    found_pack found = open(directory, path);
    if (!found.fd && errno == ELOOP) {
        const result<std::optional<place>> where = follow(directory, name, path, id);
        if (!where) return where.error();
        if (!*where) return os_error(ELOOP, "couldn't open the pack '" + path + "'");
        const result<unique_fd> there = open_there(**where);
        if (!there) return there.error();
        found = open(there->get(), (*where)->text());
    }
    if (!found.fd) return os_error(errno, "couldn't open the pack '" + found.path + "'");
    return found;
}

}  // namespace

result<std::string> run_directory::find_pack(generation_id id, uint32_t node_index, uint32_t node_count) const {
    const std::string generation = generation_name(id);
    const std::string name = pack_name(node_index, node_count);
    const result<unique_fd> directory = files::open_directory(fd_.get(), generation, path_ + "/" + generation);
    if (!directory) return directory.error();
    const std::string path = path_ + "/" + generation + "/" + name;
    const result<std::optional<place>> where = follow(directory->get(), name, path, id);
    if (!where) return where.error();
    if (!*where) return path;
    if (const result<unique_fd> there = open_there(**where); !there) return there.error();
    return (*where)->text();
}

result<unique_fd> run_directory::open_pack(generation_id id, uint32_t node_index, uint32_t node_count,
                                           uint64_t* ret_size_bytes) const {
    const std::string generation = generation_name(id);
    const std::string name = pack_name(node_index, node_count);
    const std::string path = path_ + "/" + generation + "/" + name;
    const result<unique_fd> directory = files::open_directory(fd_.get(), generation, path_ + "/" + generation);
    if (!directory) return directory.error();
    result<found_pack> found = open_file(directory->get(), name, path, id);
    if (!found) return std::move(found).error();
    struct stat info {};
    if (::fstat(found->fd.get(), &info) != 0) return os_error(errno, "couldn't look at the pack '" + found->path + "'");
    if (!S_ISREG(info.st_mode))
        return fail(code::damaged, "couldn't use the pack '" + found->path + "': it is not a regular file");
    // It has kept a FIFO from blocking us; io_uring would take it to mean "fail instead of waiting for the disk".
    if (::fcntl(found->fd.get(), F_SETFL, found->direct ? O_DIRECT : 0) != 0)
        return os_error(errno, "couldn't set up the pack '" + found->path + "'");
    *ret_size_bytes = static_cast<uint64_t>(info.st_size);
    return std::move(found->fd);
}

result<void> run_directory::sync_generation(generation_id id) const {
    const std::string path = path_ + "/" + generation_name(id);
    const result<unique_fd> directory = files::open_directory(fd_.get(), generation_name(id), path);
    return directory ? files::sync(directory->get(), path) : directory.error();
}

std::string pack_file::partial_name() const { return name_ + std::string(partial_suffix); }

bool pack_file::has_our_file(const std::string& name) const noexcept {
    struct stat named {
    }, opened{};
    return ::fstatat(directory_.get(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           ::fstat(fd_.get(), &opened) == 0 && files::same_file(named, opened);
}

bool pack_file::has_our_link(const std::string& name) const noexcept {
    const result<std::optional<std::string>> link = read_link(link_->home.get(), name, path_);
    return link && *link == link_->target;
}

void pack_file::abandon() noexcept {
    for (const std::string& name : {partial_name(), name_}) {
        if (fd_ && has_our_file(name))
            discard(::unlinkat(directory_.get(), name.c_str(), 0), "retire() removes what is left");
    }
    fd_.reset();
    if (link_) remove_link();
    link_.reset();
}

// The link goes last, and only where it names nothing: another process may have begun the same pack, in a directory
// that it has made anew.
void pack_file::remove_link() noexcept {
    struct stat info {};
    for (const std::string& name : {partial_name(), name_}) {
        const std::string there = link_->generation + "/" + name;
        if (::fstatat(link_->root.get(), there.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT) return;
    }
    const bool emptied = ::unlinkat(link_->root.get(), link_->generation.c_str(), AT_REMOVEDIR) == 0;
    const int changed = emptied || !directory_ ? link_->root.get() : directory_.get();
    if (!files::sync(changed, path_)) return;  // the file may come back with a loss of power
    if (has_our_link(partial_name()))
        discard(::unlinkat(link_->home.get(), partial_name().c_str(), 0), "retire() removes what is left");
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
    if (!has_our_file(partial_name()))
        return failed(
            fail(code::fenced, "couldn't seal '" + path_ + "': another process has begun it anew, or removed it"));
    const int refused = files::rename_new(directory_.get(), partial_name().c_str(), name_.c_str());
    if (refused != 0) return failed(os_error(refused, "couldn't seal '" + path_ + "'"));
    if (link_) return name_link();
    fd_.reset();
    result<void> synced = files::sync(directory_.get(), path_);
    // The name is the verdict, and this one may be gone with the next loss of power.
    if (!synced) discard(::unlinkat(directory_.get(), name_.c_str(), 0), "the failure is what is told");
    return synced;
}

// The file has its final name; once that is durable, so has the link, which is what readers look at.
result<void> pack_file::name_link() {
    result<void> done = files::sync(directory_.get(), path_);
    if (done) done = files::sync(link_->root.get(), path_);
    if (done && !(has_our_file(name_) && has_our_link(partial_name())))
        done = fail(code::fenced, "couldn't seal '" + path_ + "': another process has begun it anew, or removed it");
    if (done) {
        const int refused = files::rename_new(link_->home.get(), partial_name().c_str(), name_.c_str());
        // Where the answer got lost, the link may be there all the same.
        if (refused != 0 && !has_our_link(name_))
            done = os_error(refused, "couldn't make the link to '" + link_->target + "'");
    }
    if (!done) return failed(std::move(done).error());
    done = files::sync(link_->home.get(), path_);
    if (!done) {
        // As above: the name must go, and before the file.
        if (::renameat(link_->home.get(), name_.c_str(), link_->home.get(), partial_name().c_str()) == 0)
            return failed(std::move(done).error());
    }
    fd_.reset();
    link_.reset();
    return done;
}

pack_file::~pack_file() { abandon(); }
pack_file::pack_file(pack_file&& other) noexcept { *this = std::move(other); }
pack_file& pack_file::operator=(pack_file&& other) noexcept {
    if (this == &other) return *this;
    abandon();
    link_ = std::exchange(other.link_, std::nullopt);
    detour_ = std::move(other.detour_);
    directory_ = std::move(other.directory_);
    fd_ = std::move(other.fd_);
    name_ = std::move(other.name_);
    path_ = std::move(other.path_);
    size_bytes_ = other.size_bytes_;
    direct_ = other.direct_;
    return *this;
}

}  // namespace varde::store
