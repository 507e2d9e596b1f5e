// Shared steps on files: see files.h.
#include "store/files.h"

#include "base/units.h"

#include <cerrno>
#include <dirent.h>
#include <memory>
#include <sys/random.h>
#include <unistd.h>

namespace varde::store::files {

int open_at(int directory, const char* name, int flags, mode_t mode) noexcept {
    int fd = -1;
    do fd = ::openat(directory, name, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

int open_direct_at(int directory, const char* name, int flags, mode_t mode, bool* ret_direct) noexcept {
    int fd = open_at(directory, name, flags | O_DIRECT, mode);
    if (fd >= 0 || errno != EINVAL) {
        *ret_direct = fd >= 0;
        return fd;
    }
    // The kernel refuses O_DIRECT only after it has made the file, so that O_EXCL would meet our own file on the second
    // try.
    *ret_direct = false;
    return open_at(directory, name, (flags & O_CREAT) ? flags & ~O_EXCL : flags, mode);
}

bool clear_direct(int fd) noexcept {
    const int flags = ::fcntl(fd, F_GETFL);
    return flags >= 0 && ::fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0;
}

result<unique_fd> open_directory(int parent, const std::string& name, const std::string& path) {
    unique_fd fd(open_at(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    if (!fd) return os_error(errno, "couldn't open the directory '" + path + "'");
    return fd;
}

result<std::vector<std::string>> read_names(int directory, const std::string& path) {
    // A descriptor of its own: the position of a shared one would be shared, too.
    unique_fd fd(open_at(directory, ".", O_RDONLY | O_DIRECTORY));
    if (!fd) return os_error(errno, "couldn't read the directory '" + path + "'");
    struct close_stream {
        void operator()(DIR* stream) const noexcept { ::closedir(stream); }
    };
    const std::unique_ptr<DIR, close_stream> stream(::fdopendir(fd.get()));
    if (!stream) return os_error(errno, "couldn't read the directory '" + path + "'");
    discard(fd.release(), "the stream owns it");
    std::vector<std::string> names;
    while (true) {
        errno = 0;
        const dirent* entry = ::readdir(stream.get());
        if (entry == nullptr) break;
        const std::string_view name = entry->d_name;
        if (name != "." && name != "..") names.emplace_back(name);
    }
    if (errno != 0) return os_error(errno, "couldn't read the directory '" + path + "' to its end");
    return names;
}

result<void> write_all(int fd, std::span<const std::byte> bytes, const std::string& path) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(fd, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return os_error(written < 0 ? errno : EIO, "couldn't write '" + path + "'");
        bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return {};
}

result<void> read_exactly(int fd, std::byte* to, uint64_t size_bytes, uint64_t offset, const std::string& path) {
    // Of this call: another thread may have taken the flag off between a read that it refused and a look at it.
    bool may_be_direct = true;
    while (size_bytes > 0) {
        const ssize_t got = ::pread(fd, to, size_bytes, static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EINVAL && may_be_direct) {
            if (!clear_direct(fd)) return os_error(errno, "couldn't take O_DIRECT off '" + path + "'");
            may_be_direct = false;
            continue;
        }
        if (got < 0) return os_error(errno, "couldn't read '" + path + "' at byte " + std::to_string(offset));
        if (got == 0)
            return fail(code::damaged, "'" + path + "' ends at byte " + std::to_string(offset) +
                                           "; it became shorter while it was read");
        to += got;
        size_bytes -= static_cast<uint64_t>(got);
        offset += static_cast<uint64_t>(got);
    }
    return {};
}

result<std::string> read_text(int directory, const std::string& name, uint64_t bytes_max, const std::string& path) {
    // O_NONBLOCK: somebody's FIFO of that name must not stop us.
    const unique_fd fd(open_at(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
    if (!fd) return os_error(errno, "couldn't open '" + path + "'");
    struct stat info {};
    if (::fstat(fd.get(), &info) != 0) return os_error(errno, "couldn't read '" + path + "'");
    if (!S_ISREG(info.st_mode)) return fail(code::damaged, "couldn't read '" + path + "': it is not a regular file");
    std::string text;
    char part[65536];
    while (true) {
        const ssize_t got = ::read(fd.get(), part, sizeof part);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return os_error(errno, "couldn't read '" + path + "'");
        if (got == 0) return text;
        text.append(part, static_cast<size_t>(got));
        if (text.size() > bytes_max)
            return fail(code::damaged,
                        "couldn't read '" + path + "': it is longer than " + std::to_string(bytes_max) + " bytes");
    }
}

result<void> sync(int fd, const std::string& path) {
    // No second try, whatever the error: the kernel may have dropped the pages that failed, and the next fsync would
    // succeed.
    if (::fsync(fd) != 0) return os_error(errno, "couldn't sync '" + path + "'");
    return {};
}

int rename_new(int directory, const char* source, const char* target) noexcept {
    if (::renameat2(directory, source, directory, target, RENAME_NOREPLACE) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) return errno;
    // NFS, and other file systems without the flag: a hard link is atomic and never replaces.
    struct stat info {};
    if (::linkat(directory, source, directory, target, 0) == 0 ||
        // An answer that got lost on the network makes NFS ask again, and meet its own link.
        (errno == EEXIST && ::fstatat(directory, source, &info, AT_SYMLINK_NOFOLLOW) == 0 && info.st_nlink == 2)) {
        return ::unlinkat(directory, source, 0) == 0 ? 0 : errno;
    }
    if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS && errno != EMLINK) return errno;
    // Neither: look, then rename.  Between the two another could make the target; all targets of ours have one writer
    // by design.
    if (::fstatat(directory, target, &info, AT_SYMLINK_NOFOLLOW) == 0) return EEXIST;
    return ::renameat(directory, source, directory, target) == 0 ? 0 : errno;
}

std::string unique_name(std::string_view prefix) {
    uint64_t number = 0;
    if (::getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number) {
        // Early in the life of a machine.  The callers use O_EXCL, so that an equal name is an error and no harm.
        timespec now{};
        ::clock_gettime(CLOCK_REALTIME, &now);
        number = static_cast<uint64_t>(now.tv_nsec) << 32 ^ static_cast<uint64_t>(now.tv_sec) ^
                 static_cast<uint64_t>(::getpid()) << 20;
    }
    return std::string(prefix) + hexadecimal(number);
}

result<void> write_whole(int directory, const std::string& name, std::string_view text, bool replace,
                         const std::string& path) {
    const std::string temporary = unique_name(temporary_prefix);
    unique_fd fd(open_at(directory, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
    if (!fd) return os_error(errno, "couldn't create '" + path + "'");
    result<void> done = write_all(fd.get(), bytes_of(text), path);
    if (done) done = sync(fd.get(), path);
    if (done) {
        const int refused = !replace ? rename_new(directory, temporary.c_str(), name.c_str())
                            : ::renameat(directory, temporary.c_str(), directory, name.c_str()) == 0 ? 0
                                                                                                     : errno;
        if (refused != 0) done = os_error(refused, "couldn't name '" + path + "'");
    }
    if (!done) {
        discard(::unlinkat(directory, temporary.c_str(), 0),
                "the first failure is the one to report; retire() removes leftovers");
        return done;
    }
    return sync(directory, path);
}

bool same_file(const struct stat& a, const struct stat& b) noexcept {
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace varde::store::files
