// open, access, stat, statvfs: nothing is written, so that nothing is left if the process is killed.
#include "prolog/directory_look.h"

#include "base/checked.h"
#include "base/fields.h"
#include "base/handle.h"
#include "base/limits.h"
#include "base/units.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

namespace varde::node {

namespace {

constexpr size_t shown_bytes_max = 512;
constexpr const char* elsewhere = "; give another --ckpt-dir, or have this one put right";

std::string quoted(const std::string& path) { return "'" + printable(path, shown_bytes_max) + "'"; }
std::string us() { return "user " + std::to_string(::geteuid()); }
std::string because(int why) { return std::string(": ") + std::strerror(why); }

unique_fd open_directory(const std::string& path) {
    return unique_fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK));
}

bool may_write(int directory, const char* name) { return ::faccessat(directory, name, W_OK | X_OK, AT_EACCESS) == 0; }

bool is_there(const std::string& path) {
    struct stat about {};
    return ::lstat(path.c_str(), &about) == 0;
}

void look_at_space(int directory, directory_view& view) {
    struct statvfs about {};
    // A file system without blocks has no notion of space.
    if (::fstatvfs(directory, &about) != 0 || about.f_blocks == 0) return;
    const auto total = checked_multiply(about.f_blocks, about.f_frsize);
    const auto free = checked_multiply(about.f_bavail, about.f_frsize);
    if (!total || !free) return;
    view.sized = true;
    view.total_bytes = *total;
    view.free_bytes = *free;
    if (about.f_files != 0 && about.f_favail == 0 && view.problem.empty())
        view.problem = "its file system has no room for another file: all inodes are used; delete files there";
}

std::string real_path_of(int directory) {
    std::array<char, limits::path_bytes_max> path{};
    const std::string link = "/proc/self/fd/" + std::to_string(directory);
    const ssize_t length = ::readlink(link.c_str(), path.data(), path.size());
    return length > 0 ? std::string(path.data(), static_cast<size_t>(length)) : "";
}

// The run's own directory has the rules of store::run_directory: no link, and the user's.
std::string look_at_run(int directory, const std::string& name) {
    struct stat about {};
    if (name.empty() || ::fstatat(directory, name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0) {
        if (may_write(directory, ".")) return "";
        return us() + " may not make a run in it" + because(errno) + elsewhere;
    }
    const std::string run = "the run's directory " + quoted(name) + " in it ";
    if (!S_ISDIR(about.st_mode)) return run + "is a link or a file; give another --ckpt-name";
    if (about.st_uid != ::geteuid())
        return run + "belongs to user " + std::to_string(about.st_uid) + ", not to " + us() +
               "; give another --ckpt-name or --ckpt-dir";
    if (may_write(directory, name.c_str())) return "";
    return us() + " may not write to " + run + because(errno).substr(2) + elsewhere;
}

std::string refusal(const std::string& path, int why) {
    if (why == ENOTDIR) return quoted(path) + " or a part of it is no directory" + elsewhere;
    return us() + " may not enter " + quoted(path) + because(why) + elsewhere;
}

}  // namespace

directory_view look_at(const checkpoint_place& place) {
    directory_view view;
    std::string path = place.directory;
    unique_fd directory = open_directory(path);
    while (!directory && errno == ENOENT && path.size() > 1) {
        if (is_there(path)) {
            view.problem = quoted(path) + " is a link that leads nowhere" + elsewhere;
            return view;
        }
        path.resize(std::max<size_t>(path.find_last_not_of('/', path.rfind('/')) + 1, 1));
        directory = open_directory(path);
    }
    if (!directory) {
        view.problem = refusal(path, errno);
        return view;
    }
    view.real_path = real_path_of(directory.get());
    if (path == place.directory) view.problem = look_at_run(directory.get(), place.run_name);
    else if (!may_write(directory.get(), "."))
        view.problem =
            "it is not there, and " + us() + " may not make it in " + quoted(path) + because(errno) + elsewhere;
    look_at_space(directory.get(), view);
    return view;
}

// Fields end with a null, which no path has.
std::string encode_view(const directory_view& view) {
    std::string bytes;
    for (const std::string& field : {view.real_path, std::string(view.sized ? "sized" : ""),
                                     std::to_string(view.free_bytes), std::to_string(view.total_bytes), view.problem})
        bytes += field + '\0';
    return bytes;
}

result<directory_view> decode_view(std::string_view bytes) {
    std::array<std::string_view, 5> fields;
    for (std::string_view& field : fields) {
        if (bytes.find('\0') == std::string_view::npos) return fail(code::damaged, "an answer that is cut off");
        field = take_until(bytes, '\0');
    }
    const auto free = parse_number(fields[2]);
    const auto total = parse_number(fields[3]);
    if (!free || !total || !bytes.empty()) return fail(code::damaged, "an answer of another form");
    return directory_view{std::string(fields[0]), fields[1] == "sized", *free, *total,
                          printable(fields[4], 4 * shown_bytes_max)};
}

}  // namespace varde::node
