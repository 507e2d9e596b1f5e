// Lines of mountinfo, and the walk from mount to mount.
#include "prolog/mount_table.h"

#include "base/fields.h"
#include "base/units.h"

namespace varde::node {

namespace {

// Blanks and backslashes are written as \040.
std::string unescape(std::string_view text) {
    std::string plain;
    for (size_t i = 0; i < text.size(); i++) {
        const auto digit = [&](size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '7'; };
        if (text[i] != '\\' || !digit(i + 1) || !digit(i + 2) || !digit(i + 3)) {
            plain += text[i];
            continue;
        }
        plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
        i += 3;
    }
    return plain;
}

// "ID PARENT MAJOR:MINOR ROOT POINT OPTIONS TAGS... - TYPE SOURCE SUPEROPTIONS"; the source may be empty, and a file
// system of its own kind may write more behind it.
std::optional<mount_entry> parse_mount(std::string_view line) {
    const size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) return std::nullopt;
    const auto left = split(line.substr(0, dash), ' ');
    std::string_view right = line.substr(dash + 3);
    if (left.size() < 6) return std::nullopt;
    const auto id = parse_number(left[0]);
    const auto parent = parse_number(left[1]);
    const std::string_view type = take_until(right, ' ');
    const std::string_view source = take_until(right, ' ');
    if (!id || !parent || type.empty() || !left[4].starts_with('/')) return std::nullopt;
    return mount_entry{*id, *parent, unescape(left[4]), unescape(type), unescape(source), unescape(right)};
}

const mount_entry* root_of(const std::vector<mount_entry>& mounts) {
    for (const mount_entry& each : mounts) {
        if (each.point != "/") continue;
        bool inside = false;
        for (const mount_entry& other : mounts) inside |= other.id == each.parent && other.id != each.id;
        if (!inside) return &each;
    }
    return nullptr;
}

// The first mount that a look-up meets below this one.
const mount_entry* next_on_path(const std::vector<mount_entry>& mounts, const mount_entry& from,
                                std::string_view path) {
    const mount_entry* next = nullptr;
    for (const mount_entry& each : mounts) {
        if (each.parent != from.id || each.id == from.id || !holds(each.point, path)) continue;
        if (next == nullptr || each.point.size() <= next->point.size()) next = &each;
    }
    return next;
}

}  // namespace

std::vector<mount_entry> parse_mounts(std::string_view mountinfo) {
    std::vector<mount_entry> mounts;
    while (!mountinfo.empty()) {
        auto mount = parse_mount(take_until(mountinfo, '\n'));
        if (mount) mounts.push_back(std::move(*mount));
    }
    return mounts;
}

std::optional<std::string> option_of(const mount_entry& mount, std::string_view name) {
    for (const auto option : split(mount.options, ','))
        if (option.size() > name.size() && option.starts_with(name) && option[name.size()] == '=')
            return std::string(option.substr(name.size() + 1));
    return std::nullopt;
}

bool holds(std::string_view directory, std::string_view path) {
    while (directory.size() > 1 && directory.ends_with('/')) directory.remove_suffix(1);
    if (directory == "/") return path.starts_with('/');
    return path.starts_with(directory) && (path.size() == directory.size() || path[directory.size()] == '/');
}

std::optional<mount_entry> find_mount(const std::vector<mount_entry>& mounts, std::string_view path) {
    const mount_entry* at = root_of(mounts);
    if (at == nullptr) return std::nullopt;
    // As many steps as there are mounts: a text whose parents go round in a circle ends, too.
    for (size_t step = 0; step < mounts.size(); step++) {
        const mount_entry* next = next_on_path(mounts, *at, path);
        if (next == nullptr) break;
        at = next;
    }
    return *at;
}

}  // namespace varde::node
