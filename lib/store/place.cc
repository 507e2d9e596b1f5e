// Places of packs: see place.h.
#include "store/place.h"

#include "base/limits.h"
#include "base/paths.h"
#include "base/units.h"
#include "store/files.h"
#include "store/names.h"

#include <algorithm>
#include <cerrno>
#include <unistd.h>

namespace varde::store {

namespace {

constexpr std::string_view owner_prefix = "varde-";

// The last part of a path, which is cut off.
std::string_view take_last(std::string_view& path) {
    const size_t slash = path.rfind('/');
    const std::string_view last = path.substr(slash + 1);
    path = path.substr(0, slash);
    return last;
}

std::string host_name() {
    char text[65] = "";
    ::gethostname(text, sizeof text - 1);
    return text;
}

failure not_there(const place& where) {
    return fail(code::io, "couldn't reach packs in '" + where.root() + "': '" + where.mount +
                              "' is not mounted on node '" + host_name() +
                              "', or has lost that directory; nothing is lost if it comes back: mount it, then start "
                              "again");
}

// A directory that the owner made, and nobody else.  On an unmounted mount point anything may lie under the name: that
// is no word about the packs either.
result<unique_fd> open_owned(int parent, const std::string& name, const std::string& path, const place& where) {
    result<unique_fd> fd = files::open_directory(parent, name, path);
    if (!fd) return fd.error().what == code::not_found ? not_there(where) : std::move(fd);
    struct stat info {};
    if (::fstat(fd->get(), &info) != 0) return os_error(errno, "couldn't look at '" + path + "'");
    if (info.st_uid != where.owner)
        return fail(code::io, "couldn't use '" + path + "': it belongs to user id " + std::to_string(info.st_uid) +
                                  ", not to " + std::to_string(where.owner));
    return fd;
}

}  // namespace

std::string owner_directory_name(uid_t owner) { return std::string(owner_prefix) + std::to_string(owner); }
std::string place::root() const { return mount + "/" + owner_directory_name(owner) + "/" + id; }
std::string place::directory() const { return root() + "/" + generation_name(generation); }
std::string place::text() const { return directory() + "/" + pack; }

bool is_place_id(std::string_view id) noexcept {
    return id.size() == place_id_digits && id.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::optional<place> parse_place(std::string_view text) {
    if (std::count(text.begin(), text.end(), '/') < 5) return std::nullopt;
    std::string_view rest = text;
    place found;
    found.pack = take_last(rest);
    const result<generation_id> generation = parse_generation_name(take_last(rest));
    found.id = take_last(rest);
    const std::string_view owned = take_last(rest);
    found.mount = rest;
    const auto owner = parse_number(owned.substr(std::min(owned.size(), owner_prefix.size())), UINT32_MAX);
    if (!owner) return std::nullopt;
    found.owner = static_cast<uid_t>(*owner);
    const std::optional<pack_name_parts> pack = parse_pack_name(found.pack);
    if (!generation || !pack || pack->partial || !is_place_id(found.id) || !is_plain_path(found.mount))
        return std::nullopt;
    found.generation = *generation;
    if (found.text() != text) return std::nullopt;
    return found;
}

std::optional<root_owner> parse_owner(std::string_view text) {
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.back() != '\n') return std::nullopt;
    const result<uint64_t> inode = parse_number(text.substr(0, space));
    if (!inode) return std::nullopt;
    return root_owner{*inode, std::string(text.substr(space + 1, text.size() - space - 2))};
}

result<std::optional<std::string>> read_link(int directory, const std::string& name, const std::string& path) {
    std::string text(limits::path_bytes_max, '\0');
    const ssize_t size = ::readlinkat(directory, name.c_str(), text.data(), text.size());
    if (size < 0 && (errno == EINVAL || errno == ENOENT)) return std::optional<std::string>();
    if (size < 0) return os_error(errno, "couldn't look at '" + path + "'");
    text.resize(static_cast<size_t>(size));
    return std::optional(std::move(text));
}

result<place> parse_link(const std::string& text, const std::string& path, generation_id generation,
                         const std::string& pack, uid_t owner) {
    std::optional<place> where = parse_place(text);
    const bool fits = where && where->generation == generation && where->pack == pack;
    if (fits && where->owner == owner) return std::move(*where);
    if (fits)
        return fail(code::io, "couldn't reach the pack '" + path + "': its link is of user " +
                                  std::to_string(where->owner) + ", and here its run is user " + std::to_string(owner) +
                                  "'s; start it where users have the same numbers");
    return fail(code::invalid, "couldn't use the pack '" + path + "': it is a link to '" + text +
                                   "', which is no place of this pack; put the pack itself there, or remove its "
                                   "generation");
}

result<unique_fd> open_root(const place& where) {
    const unique_fd mount(files::open_at(AT_FDCWD, where.mount.c_str(), O_PATH | O_DIRECTORY));
    if (!mount && (errno == ENOENT || errno == ENOTDIR)) return not_there(where);
    if (!mount) return fail(code::io, os_error(errno, "couldn't reach the mount '" + where.mount + "'").context);
    const std::string name = owner_directory_name(where.owner);
    const result<unique_fd> owned = open_owned(mount.get(), name, where.mount + "/" + name, where);
    if (!owned) return owned.error();
    return open_owned(owned->get(), where.id, where.root(), where);
}

result<unique_fd> open_there(const place& where) {
    const result<unique_fd> root = open_root(where);
    if (!root) return root.error();
    return files::open_directory(root->get(), generation_name(where.generation), where.directory());
}

}  // namespace varde::store
