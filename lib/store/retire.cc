// Retention: deleting what newer complete generations have made superfluous.
//
// The order is what keeps a run safe.  Nothing goes before a newer complete generation was looked at, pack by pack.  A
// generation that goes is renamed first, to a name that no reader takes for one: a machine may stop in the middle, and
// half a generation must never look whole.  Only files that this program makes are deleted, and only then the empty
// directory: what a person has put beside the packs (notes, a converted model) is not ours to lose, and a link out of
// the directory leads nowhere, unless it is our own to a pack on a mount: that is deleted first, then its link.
#include "base/clock.h"
#include "store/files.h"
#include "store/judge.h"
#include "store/names.h"
#include "store/selection.h"
#include "store/spread.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <unistd.h>

namespace varde::store {

namespace {

constexpr time_t writer_s_max = 3600;  // a writer that lives needs seconds for its few bytes

void keep_first(result<void>& first, result<void> next) {
    if (first && !next) first = std::move(next);
}

// What one call of retire() goes by.
struct retirement {
    run_home run;
    bool links = false;             // packs may lie on mounts
    std::vector<std::string> left;  // there, and told of
};

// Deletes what the directory's links name on mounts; the links stay.  A mount that is not there is a failure and keeps
// the others from nothing.
result<void> remove_on_mounts(retirement& of, int directory, const std::vector<std::string>& names,
                              const std::string& path, generation_id id) {
    std::map<std::string, std::vector<place>> by_directory;
    for (const std::string& name : names) {
        if (!is_ours(name)) continue;
        const result<std::optional<std::string>> link = read_link(directory, name, path + "/" + name);
        if (!link) return link.error();
        const std::optional<place> where = *link ? parse_place(**link) : std::nullopt;
        if (where && where->generation == id) by_directory[where->directory()].push_back(*where);
    }
    result<void> done;
    for (const auto& [there, packs] : by_directory) {
        const result<removal> removed = remove_there(of.run, packs);
        if (!removed) keep_first(done, removed.error());
        else if (*removed == removal::of_another)
            of.left.push_back("'" + there + "' is left: it belongs to the run of which '" + of.run.path +
                              "' is a copy, or to this one under an earlier path");
    }
    return done;
}

// Empties and removes a directory that has the retired name already.  Files of others stay, and so does the directory
// then.
result<void> remove_retired(retirement& of, const std::string& name, generation_id id) {
    const std::string path = of.run.path + "/" + name;
    const result<unique_fd> directory = files::open_directory(of.run.fd, name, path);
    if (!directory) return directory.error();
    const result<std::vector<std::string>> names = files::read_names(directory->get(), path);
    if (!names) return names.error();
    if (of.links) {
        if (result<void> removed = remove_on_mounts(of, directory->get(), *names, path, id); !removed) return removed;
    }
    for (const std::string& file : *names) {
        // A directory under such a name is not ours either.
        if (is_ours(file) && ::unlinkat(directory->get(), file.c_str(), 0) != 0 && errno != ENOENT && errno != EISDIR)
            return os_error(errno, "couldn't delete '" + path + "/" + file + "'");
    }
    if (::unlinkat(of.run.fd, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT || errno == ENOTEMPTY ||
        errno == EEXIST)
        return {};
    return os_error(errno, "couldn't delete '" + path + "'");
}

result<void> remove_generation(retirement& of, generation_id id) {
    const std::string name = generation_name(id);
    const std::string retired = std::string(retired_prefix) + name;
    // The sync keeps the rename ahead of the deletions on storage, too.
    if (::renameat(of.run.fd, name.c_str(), of.run.fd, retired.c_str()) != 0)
        return os_error(errno, "couldn't retire '" + of.run.path + "/" + name + "'");
    if (const result<void> synced = files::sync(of.run.fd, of.run.path); !synced) return synced;
    return remove_retired(of, retired, id);
}

// Temporary files that are older: of a writer that died.  It costs nothing if one stays, and the next call tries again.
void sweep(int directory, const std::vector<std::string>& names, time_t age_s) {
    const auto oldest_s = static_cast<time_t>(wall_ns() / ns_per_s) - age_s;
    for (const std::string& name : names) {
        struct stat info {};
        if (name.starts_with(files::temporary_prefix) &&
            ::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && info.st_mtim.tv_sec <= oldest_s)
            discard(::unlinkat(directory, name.c_str(), 0), "it costs nothing");
    }
}

void sweep_below(int run, const std::string& run_path, const std::string& name) {
    const std::string path = run_path + "/" + name;
    const result<unique_fd> directory = files::open_directory(run, name, path);
    if (!directory) return;
    const result<std::vector<std::string>> names = files::read_names(directory->get(), path);
    if (names) sweep(directory->get(), *names, writer_s_max);
}

// What earlier calls and dead writers have left in the run's directory and the roster.
result<void> finish_earlier(retirement& of) {
    const auto& [run, run_path] = of.run;
    const result<std::vector<std::string>> names = files::read_names(run, run_path);
    if (!names) return names.error();
    // In the run's directory it is a link on its way to be `latest`; a leader that lives only loses a new `latest`.
    sweep(run, *names, 0);
    sweep_below(run, run_path, "roster");
    result<void> finished;
    for (const std::string& name : *names) {
        if (!name.starts_with(retired_prefix)) continue;
        const auto id = parse_generation_name(std::string_view(name).substr(retired_prefix.size()));
        if (id) keep_first(finished, remove_retired(of, name, *id));
    }
    return finished;
}

// The mounts that a generation's packs lie on.  Others may be away, and whoever opens one that hangs waits for it.
std::vector<std::string> mounts_of(const run_home& run, generation_id id) {
    std::set<std::string> found;
    const std::string path = run.path + "/" + generation_name(id);
    const result<unique_fd> directory = files::open_directory(run.fd, generation_name(id), path);
    const auto names = directory ? files::read_names(directory->get(), path) : directory.error();
    if (!names) return {};
    for (const std::string& name : *names) {
        const result<std::optional<std::string>> link = read_link(directory->get(), name, path + "/" + name);
        const std::optional<place> where = link && *link ? parse_place(**link) : std::nullopt;
        if (where) found.insert(where->mount);
    }
    return {found.begin(), found.end()};
}

// A generation that cannot be read is neither: it does not count, and it does not go.
result<void> select(int run, const std::string& run_path, retention& of_run) {
    const result<std::vector<generation_id>> ids = read_generations(run, run_path);
    if (!ids) return ids.error();
    result<void> done;
    for (const generation_id id : *ids) {
        if (!of_run.in_question(id)) continue;
        result<judged> of = judge(run, run_path, id);
        if (!of && of.error().what == code::not_found) continue;
        result<void> readable = of ? result<void>() : of.error();
        const bool wanted = of && of_run.wants(of->what);
        if (wanted) readable = measure(*of);
        if (readable) of_run.take(of->what, wanted);
        else keep_first(done, std::move(readable));
    }
    return done;
}

}  // namespace

result<uint32_t> run_directory::retire(uint32_t keep, generation_id newest, std::vector<std::string>* ret_left,
                                       std::vector<generation_id>* ret_removed) {
    if (keep == 0)
        return fail(code::invalid, "couldn't retire checkpoints of '" + path_ + "': at least one must be kept");
    const result<bool> links = may_have_links();
    if (!links) return links.error();
    retirement of{{fd_.get(), path_}, *links, {}};
    // One failure does not keep the others from going, or a full disk would stay full; the first is returned.
    result<void> done = finish_earlier(of);
    retention of_run(keep, newest);
    keep_first(done, select(fd_.get(), path_, of_run));
    for (const generation_id id : of_run.kept()) sweep_below(fd_.get(), path_, generation_name(id));
    uint32_t removed_count = 0;
    for (const generation_id id : of_run.superfluous()) {
        result<void> removed = remove_generation(of, id);
        if (removed) ++removed_count;
        if (removed && ret_removed != nullptr) ret_removed->push_back(id);
        keep_first(done, std::move(removed));
    }
    if (*links && !of_run.kept().empty()) {
        const auto mounts = mounts_of(of.run, of_run.kept().front());
        for (std::string& stray : find_strays(of.run, mounts, of_run.kept().back()))
            of.left.push_back(std::move(stray));
    }
    if (ret_left != nullptr) *ret_left = std::move(of.left);
    if (!done) return std::move(done).error();
    return removed_count;
}

}  // namespace varde::store
