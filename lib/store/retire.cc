// Retention: deleting what newer complete generations have made superfluous.
//
// The order is what keeps a run safe.  Nothing goes before a newer complete generation was looked at, pack by pack.  A
// generation that goes is renamed first, to a name that no reader takes for one: a machine may stop in the middle, and
// half a generation must never look whole.  Only files that this program makes are deleted, and only then the empty
// directory: what a person has put beside the packs (notes, a converted model) is not ours to lose, and a link out of
// the directory leads nowhere.
#include "base/clock.h"
#include "store/files.h"
#include "store/judge.h"
#include "store/names.h"

#include <algorithm>
#include <cerrno>
#include <unistd.h>

namespace varde::store {

namespace {

constexpr time_t writer_s_max = 3600;  // a writer that lives needs seconds for its few bytes

void keep_first(result<void>& first, result<void> next) {
    if (first && !next) first = std::move(next);
}

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
result<void> finish_earlier(int run, const std::string& run_path) {
    const result<std::vector<std::string>> names = files::read_names(run, run_path);
    if (!names) return names.error();
    // In the run's directory it is a link on its way to be `latest`; a leader that lives only loses a new `latest`.
    sweep(run, *names, 0);
    sweep_below(run, run_path, "roster");
    result<void> finished;
    for (const std::string& name : *names) {
        if (!name.starts_with(retired_prefix)) continue;
        if (!parse_generation_name(std::string_view(name).substr(retired_prefix.size()))) continue;
        keep_first(finished, remove_retired(run, run_path, name));
    }
    return finished;
}

// What of a run stays, and what may go.
struct selection {
    std::vector<generation_id> kept;
    std::vector<generation_id> superfluous;  // newest first
};

// A generation that cannot be read is neither: it does not count, and it does not go.
result<void> select(int run, const std::string& run_path, uint32_t keep, generation_id newest, selection& of_run) {
    const result<std::vector<generation_id>> ids = read_generations(run, run_path);
    if (!ids) return ids.error();
    result<void> done;
    for (const generation_id id : *ids) {
        if (id > newest) continue;
        result<judged> of = judge(run, run_path, id);
        if (!of && of.error().what == code::not_found) continue;
        result<void> readable = of ? result<void>() : of.error();
        const bool wanted = of && of->what.status == generation_status::complete && of_run.kept.size() < keep;
        if (wanted) readable = measure(*of);
        if (!readable) {
            keep_first(done, std::move(readable));
            continue;
        }
        const generation_status status = of->what.status;
        if (wanted && status == generation_status::complete) {
            of_run.kept.push_back(id);
            // Those are unfinished and newer than one that stays: they may still be in writing.
            of_run.superfluous.clear();
        } else if (!wanted && (status == generation_status::complete || status == generation_status::incomplete)) {
            of_run.superfluous.push_back(id);
        }
    }
    return done;
}

}  // namespace

result<uint32_t> run_directory::retire(uint32_t keep, generation_id newest) {
    if (keep == 0)
        return fail(code::invalid, "couldn't retire checkpoints of '" + path_ + "': at least one must be kept");
    // One failure does not keep the others from going, or a full disk would stay full; the first is returned.
    result<void> done = finish_earlier(fd_.get(), path_);
    selection of_run;
    keep_first(done, select(fd_.get(), path_, keep, newest, of_run));
    for (const generation_id id : of_run.kept) sweep_below(fd_.get(), path_, generation_name(id));
    uint32_t removed_count = 0;
    if (of_run.kept.empty()) of_run.superfluous.clear();
    // Oldest first: whatever stops this, the newer ones are still there.
    std::reverse(of_run.superfluous.begin(), of_run.superfluous.end());
    for (const generation_id id : of_run.superfluous) {
        result<void> removed = remove_generation(fd_.get(), path_, id);
        if (removed) ++removed_count;
        keep_first(done, std::move(removed));
    }
    if (!done) return std::move(done).error();
    return removed_count;
}

}  // namespace varde::store
