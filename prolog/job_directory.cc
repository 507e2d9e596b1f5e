// Directories and files below /run/varde.
#include "prolog/job_directory.h"

#include "prolog/own_directory.h"

#include <cerrno>
#include <cstdio>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

namespace varde::node {

namespace {

constexpr int listen_backlog = 512;  // all local ranks say hello at the same moment

}  // namespace

result<job_directory> job_directory::create(const std::string& run_directory, uint32_t job_id) {
    auto parent = make_own_directory(AT_FDCWD, run_directory, run_directory);
    if (!parent) return std::move(parent).error();
    job_directory made;
    made.name_ = std::to_string(job_id);
    made.path_ = run_directory + "/" + made.name_;
    auto job = make_own_directory(parent->get(), made.name_, made.path_);
    if (!job) return std::move(job).error();
    made.parent_ = std::move(*parent);
    made.job_ = std::move(*job);
    return made;
}

result<job_directory> job_directory::open(const std::string& run_directory, uint32_t job_id) {
    auto parent = open_own_directory(AT_FDCWD, run_directory, run_directory);
    if (!parent) return std::move(parent).error();
    job_directory found;
    found.name_ = std::to_string(job_id);
    found.path_ = run_directory + "/" + found.name_;
    auto job = open_own_directory(parent->get(), found.name_, found.path_);
    if (!job) return std::move(job).error();
    found.parent_ = std::move(*parent);
    found.job_ = std::move(*job);
    return found;
}

result<unique_fd> job_directory::listen(uid_t uid, gid_t gid) const {
    const std::string shown = path_ + "/" + socket_name;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (shown.size() >= sizeof address.sun_path)
        return fail(code::invalid, "couldn't bind '" + shown + "': the path is too long");
    shown.copy(address.sun_path, shown.size());
    unique_fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket) return os_error(errno, "couldn't make a socket");
    // The mode is right from the first moment on; the owner follows before anybody knows of the socket.
    const mode_t before = ::umask(0177);
    const int bound = ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
    const int failed = errno;
    ::umask(before);
    if (bound != 0) return os_error(failed, "couldn't bind '" + shown + "'");
    if (::fchownat(job_.get(), socket_name, uid, gid, AT_SYMLINK_NOFOLLOW) != 0)
        return os_error(errno, "couldn't chown '" + shown + "'");
    if (::listen(socket.get(), listen_backlog) != 0) return os_error(errno, "couldn't listen on '" + shown + "'");
    return socket;
}

result<void> job_directory::write_file(const std::string& name, const std::string& text) const {
    return write_own_file(job_.get(), name, text, path_ + "/" + name);
}

result<void> job_directory::clear() const {
    // fdopendir takes its descriptor over, so it gets one of its own.
    unique_fd copy(::openat(job_.get(), ".", own_directory_flags));
    if (!copy) return os_error(errno, "couldn't list '" + path_ + "'");
    const std::unique_ptr<DIR, int (*)(DIR*)> listing(::fdopendir(copy.get()), ::closedir);
    if (!listing) return os_error(errno, "couldn't list '" + path_ + "'");
    copy.release();
    while (const dirent* entry = ::readdir(listing.get())) {
        const std::string name = entry->d_name;
        if (name == "." || name == "..") continue;
        if (::unlinkat(job_.get(), name.c_str(), 0) != 0 && errno != ENOENT)
            return os_error(errno, "couldn't remove '" + path_ + "/" + name + "'");
    }
    return {};
}

result<void> job_directory::remove() {
    auto cleared = clear();
    if (!cleared) return cleared;
    if (::unlinkat(parent_.get(), name_.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT)
        return os_error(errno, "couldn't remove '" + path_ + "'");
    return {};
}

}  // namespace varde::node
