// Directories and files below /run/varde.
#include "prolog/job_directory.h"

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
constexpr int directory_flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// Opens a directory that nobody but us can have filled.
result<unique_fd> open_own(int parent, const std::string& name, const std::string& shown) {
    unique_fd directory(::openat(parent, name.c_str(), directory_flags));
    if (!directory) return os_error(errno, "couldn't open '" + shown + "'");
    struct stat about {};
    if (::fstat(directory.get(), &about) != 0) return os_error(errno, "couldn't stat '" + shown + "'");
    if (about.st_uid != ::geteuid() || (about.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return fail(code::invalid, "couldn't use '" + shown + "': others than root may write it; remove it");
    return directory;
}

result<unique_fd> make_own(int parent, const std::string& name, const std::string& shown) {
    const bool made = ::mkdirat(parent, name.c_str(), 0755) == 0;
    if (!made && errno != EEXIST) return os_error(errno, "couldn't make '" + shown + "'");
    auto directory = open_own(parent, name, shown);
    // slurmd's umask may be anything.
    if (made && directory && ::fchmod(directory->get(), 0755) != 0)
        return os_error(errno, "couldn't chmod '" + shown + "'");
    return directory;
}

}  // namespace

result<job_directory> job_directory::create(const std::string& run_directory, uint32_t job_id) {
    auto parent = make_own(AT_FDCWD, run_directory, run_directory);
    if (!parent) return std::move(parent).error();
    job_directory made;
    made.name_ = std::to_string(job_id);
    made.path_ = run_directory + "/" + made.name_;
    auto job = make_own(parent->get(), made.name_, made.path_);
    if (!job) return std::move(job).error();
    made.parent_ = std::move(*parent);
    made.job_ = std::move(*job);
    return made;
}

result<job_directory> job_directory::open(const std::string& run_directory, uint32_t job_id) {
    auto parent = open_own(AT_FDCWD, run_directory, run_directory);
    if (!parent) return std::move(parent).error();
    job_directory found;
    found.name_ = std::to_string(job_id);
    found.path_ = run_directory + "/" + found.name_;
    auto job = open_own(parent->get(), found.name_, found.path_);
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
    const std::string shown = path_ + "/" + name;
    const std::string fresh = name + ".new";
    ::unlinkat(job_.get(), fresh.c_str(), 0);
    const unique_fd file(
        ::openat(job_.get(), fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file) return os_error(errno, "couldn't write '" + shown + "'");
    // One write into a file system in memory: short only when it is full.
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written < 0) return os_error(errno, "couldn't write '" + shown + "'");
    if (static_cast<size_t>(written) != text.size()) return os_error(ENOSPC, "couldn't write '" + shown + "'");
    if (::fchmod(file.get(), 0644) != 0) return os_error(errno, "couldn't chmod '" + shown + "'");
    if (::renameat(job_.get(), fresh.c_str(), job_.get(), name.c_str()) != 0)
        return os_error(errno, "couldn't rename '" + shown + ".new'");
    return {};
}

result<void> job_directory::clear() const {
    // fdopendir takes its descriptor over, so it gets one of its own.
    unique_fd copy(::openat(job_.get(), ".", directory_flags));
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
