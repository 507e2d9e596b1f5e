// Judging a generation: see judge.h.
//
// A manifest that cannot be parsed costs nothing: the packs' names decide, as if it were not there.  One that can be
// parsed and does not agree with the packs means that something was lost or mixed up after the commit: damaged.
#include "store/judge.h"

#include "base/checked.h"
#include "base/clock.h"
#include "store/files.h"
#include "store/manifest.h"
#include "store/names.h"
#include "store/parallel.h"
#include "store/place.h"

#include <algorithm>
#include <cerrno>
#include <map>

namespace varde::store {

namespace {

constexpr size_t missing_named_max = 16;
constexpr uint64_t quiet_ns = 120 * ns_per_s;  // an agent that writes changes a file far more often

uint64_t changed_ns(const struct stat& info) noexcept {
    return static_cast<uint64_t>(std::max<time_t>(info.st_mtim.tv_sec, 0)) * ns_per_s +
           static_cast<uint64_t>(info.st_mtim.tv_nsec);
}

void damage(generation& what, std::string reason) {
    if (what.status == generation_status::damaged) return;  // the first reason is the one that counts
    what.status = generation_status::damaged;
    what.reason = std::move(reason);
}

// Counts the sealed packs and names the missing ones.
void count_packs(const std::vector<pack_name_parts>& packs, judged& of) {
    generation& what = of.what;
    for (const pack_name_parts& pack : packs) {
        if (what.node_count != 0 && pack.node_count != what.node_count) {
            damage(what, "it holds packs of " + std::to_string(what.node_count) + " nodes and of " +
                             std::to_string(pack.node_count) + " nodes");
            continue;
        }
        what.node_count = pack.node_count;
        of.sealed.resize(what.node_count);
        if (pack.partial || of.sealed[pack.node_index]) continue;
        of.sealed[pack.node_index] = true;
        ++what.packs_sealed;
    }
    for (uint32_t i = 0; i < what.node_count && what.missing.size() < missing_named_max; ++i) {
        if (!of.sealed[i]) what.missing.push_back(i);
    }
}

// Errors are those of reading the file; a manifest that is no use only leaves a word in `reason`.
result<void> read_record(judged& of, const std::string& path) {
    const std::string name(manifest_name);
    const result<std::string> text = files::read_text(of.directory.get(), name, manifest_bytes_max, path + "/" + name);
    if (!text && text.error().what == code::not_found) return {};  // retired in this moment
    if (!text && text.error().what != code::damaged) return text.error();
    result<manifest> record = text ? decode_manifest(*text) : result<manifest>(text.error());
    if (record) of.record = std::move(*record);
    else of.what.reason = record.error().context;
    return {};
}

struct size_of_pack {
    int os_errno = 0;
    mode_t mode = 0;
    uint64_t bytes = 0;
    uint64_t changed = 0;
    result<std::optional<std::string>> link{std::nullopt};  // of a pack on a mount
    int there = -1;                                         // its directory there
};

void look_at(int directory, const std::string& name, size_of_pack& ret) {
    struct stat info {};
    ret.os_errno = ::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
    ret.mode = info.st_mode;
    ret.bytes = static_cast<uint64_t>(info.st_size);
    ret.changed = ret.os_errno == 0 ? changed_ns(info) : 0;
}

// Opens the directory of a sealed pack on a mount, once for all packs in it.
result<void> open_place(const judged& of, uint32_t index, size_of_pack& pack,
                        std::map<std::string, result<unique_fd>>& opened) {
    const std::string name = pack_name(index, of.what.node_count);
    const std::string path = generation_name(of.what.id) + "/" + name;
    if (!pack.link) return pack.link.error();
    if (!*pack.link) return {};  // it is no link any more
    const result<place> where = parse_link(**pack.link, path, of.what.id, name, of.owner);
    if (!where && where.error().what == code::io) return where.error();
    if (!where) return {};  // somebody else's link: not followed, and no pack
    auto found = opened.find(where->directory());
    if (found == opened.end()) found = opened.emplace(where->directory(), open_there(*where)).first;
    const result<unique_fd>& there = found->second;
    if (there) pack.there = there->get();
    else if (there.error().what == code::not_found) pack.os_errno = ENOENT;
    else return there.error();
    return {};
}

// What was a link gets the size and the kind of the file that it leads to.  The writer of an unfinished one may be
// anywhere: that it cannot be seen is no failure.
result<void> look_on_mounts(const judged& of, std::vector<size_of_pack>& sizes) {
    std::map<std::string, result<unique_fd>> opened;
    for (uint32_t i = 0; i < sizes.size(); ++i) {
        if (!S_ISLNK(sizes[i].mode)) continue;
        if (const result<void> done = open_place(of, i, sizes[i], opened); !done && of.sealed[i]) return done;
    }
    if (opened.empty()) return {};
    for_each_index(static_cast<uint32_t>(sizes.size()), [&](uint32_t i) {
        const std::string name = pack_name(i, of.what.node_count);
        if (sizes[i].there >= 0)
            look_at(sizes[i].there, of.sealed[i] ? name : name + std::string(partial_suffix), sizes[i]);
    });
    return {};
}

}  // namespace

other_files judge_names(const std::vector<std::string>& names, judged& of) {
    other_files found;
    std::vector<pack_name_parts> packs;
    for (const std::string& name : names) {
        if (name == manifest_name) found.has_manifest = true;
        else if (name == damage_name) found.has_damage = true;
        else if (const std::optional<pack_name_parts> pack = parse_pack_name(name)) packs.push_back(*pack);
    }
    count_packs(packs, of);
    const bool all = of.what.node_count != 0 && of.what.packs_sealed == of.what.node_count;
    if (of.what.status != generation_status::damaged && all) of.what.status = generation_status::complete;
    return found;
}

void judge_record(judged& of) {
    generation& what = of.what;
    const manifest& record = *of.record;
    if (record.id != what.id) return damage(what, "its manifest is that of " + generation_name(record.id));
    if (what.node_count != 0 && record.packs.size() != what.node_count) {
        return damage(what, "its manifest lists " + std::to_string(record.packs.size()) + " packs, its packs say " +
                                std::to_string(what.node_count) + " nodes");
    }
    if (what.packs_sealed < record.packs.size()) {
        const uint32_t first = what.missing.empty() ? 0 : what.missing.front();
        return damage(what, "it was committed, and " + std::to_string(record.packs.size() - what.packs_sealed) +
                                " of its packs are gone, the first that of node " + std::to_string(first));
    }
    what.committed = true;
    for (const manifest_pack& pack : record.packs)
        what.size_bytes += pack.size_bytes;  // broken_rule() has checked the sum
}

result<judged> judge(int run, const std::string& run_path, generation_id id) {
    judged of;
    of.what.id = id;
    const std::string name = generation_name(id);
    const std::string path = run_path + "/" + name;
    result<unique_fd> directory = files::open_directory(run, name, path);
    if (!directory) {
        const int why = directory.error().os_errno;
        if (why == ENOTDIR || why == ELOOP) return fail(code::not_found, "'" + path + "' is not a directory");
        return std::move(directory).error();
    }
    of.directory = std::move(*directory);
    struct stat info {};
    if (::fstat(of.directory.get(), &info) != 0) return os_error(errno, "couldn't read '" + path + "'");
    const result<std::vector<std::string>> names = files::read_names(of.directory.get(), path);
    if (!names) return names.error();
    of.what.wall_ns = changed_ns(info);
    of.owner = info.st_uid;
    const other_files found = judge_names(*names, of);
    if (found.has_damage) {
        const std::string file(damage_name);
        const result<std::string> text = files::read_text(of.directory.get(), file, 65536, path + "/" + file);
        damage(of.what, text ? decode_damage(*text) : text.error().context);
    }
    if (found.has_manifest) {
        if (const result<void> read = read_record(of, path); !read) return read.error();
        if (of.record) judge_record(of);
    }
    return of;
}

result<void> measure(judged& of) {
    generation& what = of.what;
    std::vector<size_of_pack> sizes(of.sealed.size());
    for_each_index(static_cast<uint32_t>(sizes.size()), [&](uint32_t i) {
        const std::string name = pack_name(i, what.node_count);
        const std::string looked_at = of.sealed[i] ? name : name + std::string(partial_suffix);
        look_at(of.directory.get(), looked_at, sizes[i]);
        if (S_ISLNK(sizes[i].mode)) sizes[i].link = read_link(of.directory.get(), looked_at, looked_at);
    });
    if (const result<void> followed = look_on_mounts(of, sizes); !followed) return followed;
    uint64_t total = 0;
    for (uint32_t i = 0; i < sizes.size(); ++i) {
        what.wall_ns = std::max(what.wall_ns, sizes[i].changed);
        if (!of.sealed[i]) continue;
        const std::string name = "'" + generation_name(what.id) + "/" + pack_name(i, what.node_count) + "'";
        if (sizes[i].os_errno == ENOENT) damage(what, name + " is gone");
        else if (sizes[i].os_errno != 0) return os_error(sizes[i].os_errno, "couldn't look at " + name);
        else if (S_ISLNK(sizes[i].mode)) damage(what, name + " is a link to what is no place of this pack");
        else if (!S_ISREG(sizes[i].mode)) damage(what, name + " is not a regular file");
        else if (sizes[i].bytes == 0) damage(what, name + " is empty");
        else if (what.committed && sizes[i].bytes != of.record->packs[i].size_bytes)
            damage(what, name + " has " + std::to_string(sizes[i].bytes) + " bytes, its manifest says " +
                             std::to_string(of.record->packs[i].size_bytes));
        const std::optional<uint64_t> sum = checked_add(total, sizes[i].bytes);
        total = sum ? *sum : UINT64_MAX;
    }
    what.size_bytes = total;
    const uint64_t now = wall_ns();
    if (what.status == generation_status::incomplete && (what.wall_ns > now || now - what.wall_ns < quiet_ns))
        what.status = generation_status::writing;
    return {};
}

result<std::vector<generation_id>> read_generations(int run, const std::string& run_path) {
    const result<std::vector<std::string>> names = files::read_names(run, run_path);
    if (!names) return names.error();
    std::vector<generation_id> found;
    for (const std::string& name : *names) {
        if (const result<generation_id> id = parse_generation_name(name)) found.push_back(*id);
    }
    std::sort(found.begin(), found.end(), [](generation_id a, generation_id b) { return a > b; });
    return found;
}

}  // namespace varde::store
