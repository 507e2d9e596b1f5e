// Retention: deleting what newer complete generations have made superfluous.
//
// The order is what keeps a run safe.  Nothing goes before a newer complete generation was looked at, pack by pack.  A
// generation that goes is renamed first, to a name that no reader takes for one: a machine may stop in the middle, and
// half a generation must never look whole.  Only files that this program makes are deleted, and only then the empty
// directory: what a person has put beside the packs (notes, a converted model) is not ours to lose, and a link out of
// the directory leads nowhere.
#include "store/files.h"
#include "store/judge.h"
#include "store/names.h"

#include <algorithm>
#include <cerrno>
#include <unistd.h>

namespace varde::store {

namespace {

// Empties and removes a directory that has the retired name already.  Files of others stay, and so does the directory
// then.
result<void> remove_retired(int run, const std::string& run_path, const std::string& name) {
    const std::string path = run_path + "/" + name;
    const result<unique_fd> directory = files::open_directory(run, name, path);
    if (!directory) return directory.error();
    const result<std::vector<std::string>> names = files::read_names(directory->get(), path);
    if (!names) return names.error();
    for (const std::string& file : *names) {
        // A directory under such a name is not ours either.
        if (is_ours(file) && ::unlinkat(directory->get(), file.c_str(), 0) != 0 && errno != ENOENT && errno != EISDIR)
            return os_error(errno, "couldn't delete '" + path + "/" + file + "'");
    }
    if (::unlinkat(run, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT || errno == ENOTEMPTY || errno == EEXIST)
        return {};
    return os_error(errno, "couldn't delete '" + path + "'");
}

result<void> remove_generation(int run, const std::string& run_path, generation_id id) {
    const std::string name = generation_name(id);
    const std::string retired = std::string(retired_prefix) + name;
    // The sync keeps the rename ahead of the deletions on storage, too.
    if (::renameat(run, name.c_str(), run, retired.c_str()) != 0)
        return os_error(errno, "couldn't retire '" + run_path + "/" + name + "'");
    if (const result<void> synced = files::sync(run, run_path); !synced) return synced;
    return remove_retired(run, run_path, retired);
}

// What an earlier call did not finish, and a temporary link of a leader that died.  (One that lives only loses a new
// `latest`.)
result<void> finish_earlier(int run, const std::string& run_path) {
    const result<std::vector<std::string>> names = files::read_names(run, run_path);
    if (!names) return names.error();
    for (const std::string& name : *names) {
        if (name.starts_with(files::temporary_prefix))
            discard(::unlinkat(run, name.c_str(), 0), "it costs nothing, and the next call tries again");
        if (!name.starts_with(retired_prefix)) continue;
        if (!parse_generation_name(std::string_view(name).substr(retired_prefix.size()))) continue;
        if (const result<void> removed = remove_retired(run, run_path, name); !removed) return removed;
    }
    return {};
}

}  // namespace

result<uint32_t> run_directory::retire(uint32_t keep, generation_id newest) {
    if (keep == 0)
        return fail(code::invalid, "couldn't retire checkpoints of '" + path_ + "': at least one must be kept");
    if (const result<void> finished = finish_earlier(fd_.get(), path_); !finished) return finished.error();
    const result<std::vector<generation_id>> ids = read_generations(fd_.get(), path_);
    if (!ids) return ids.error();
    uint32_t kept = 0;
    std::vector<generation_id> superfluous;
    for (const generation_id id : *ids) {
        if (id > newest) continue;
        result<judged> of = judge(fd_.get(), path_, id);
        if (!of && of.error().what == code::not_found) continue;
        if (!of) return of.error();
        const bool complete = of->what.status == generation_status::complete;
        if (complete && kept < keep) {
            if (const result<void> measured = measure(*of); !measured) return measured.error();
            if (of->what.status != generation_status::complete) continue;
            ++kept;
            superfluous.clear();  // those are unfinished and newer than one that stays: they may still be in writing
        } else if (complete || of->what.status == generation_status::incomplete) {
            superfluous.push_back(id);
        }
    }
    if (kept == 0) return 0U;
    // Oldest first: whatever stops this, the newer ones are still there.
    std::reverse(superfluous.begin(), superfluous.end());
    uint32_t removed_count = 0;
    for (const generation_id id : superfluous) {
        if (const result<void> removed = remove_generation(fd_.get(), path_, id); !removed) return removed.error();
        ++removed_count;
    }
    return removed_count;
}

}  // namespace varde::store
