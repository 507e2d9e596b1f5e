// Opening a run's directory, listing and choosing its generations.  See store.h.
#include "base/limits.h"
#include "base/options.h"
#include "store/files.h"
#include "store/judge.h"
#include "store/selection.h"
#include "store/spread.h"

#include <algorithm>
#include <cerrno>
#include <unistd.h>

namespace varde::store {

namespace {

// "mkdir -p", with the user's umask: the parents are shared with other runs, maybe with other people.
result<void> make_parents(const std::string& directory) {
    for (size_t end = directory.find('/', 1);; end = directory.find('/', end + 1)) {
        const std::string part = directory.substr(0, end);
        if (::mkdir(part.c_str(), 0777) != 0 && errno != EEXIST) {
            const int why = errno;
            struct stat info {};
            // A read-only or foreign parent answers EROFS or EACCES before it says that the directory is there.
            if (::stat(part.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
                return os_error(why, "couldn't create the directory '" + part + "'");
        }
        if (end == std::string::npos) return {};
    }
}

result<unique_fd> open_parent(const std::string& directory) {
    unique_fd parent(files::open_at(AT_FDCWD, directory.c_str(), O_RDONLY | O_DIRECTORY));
    if (!parent) return os_error(errno, "couldn't open the directory '" + directory + "'");
    return parent;
}

// Only the run's owner writes to it: another's directory in our place (a shared scratch folder) would get our weights,
// and could hand us its own.
result<void> check_owner(int fd, const std::string& path) {
    struct stat info {};
    if (::fstat(fd, &info) != 0) return os_error(errno, "couldn't look at '" + path + "'");
    if (info.st_uid == ::geteuid()) return {};
    return fail(code::invalid, "couldn't use the run's directory '" + path + "': it belongs to user id " +
                                   std::to_string(info.st_uid) + ", not to " + std::to_string(::geteuid()) +
                                   "; choose another name or directory");
}

// A candidate for a restart.  Names are quick and decide which one; sizes are looked at only for that one.
result<judged> judge_with_sizes(int run, const std::string& path, generation_id id) {
    result<judged> of = judge(run, path, id);
    if (!of || of->what.status != generation_status::complete) return of;
    if (const result<void> measured = measure(*of); !measured) return measured.error();
    return of;
}

}  // namespace

result<run_directory> run_directory::open(const std::string& directory, const std::string& name, bool create) {
    if (directory.empty() || directory.size() > limits::path_bytes_max || directory.find('\0') != std::string::npos)
        return fail(code::invalid, "the checkpoint directory '" + directory.substr(0, 80) + "' is no usable path");
    if (const result<void> usable = check_run_name(name); !usable) return usable.error();
    run_directory run;
    run.path_ = directory + (directory.back() == '/' ? "" : "/") + name;
    if (create) {
        if (const result<void> made = make_parents(directory); !made) return made.error();
    }
    const result<unique_fd> parent = open_parent(directory);
    if (!parent) return parent.error();
    if (create) {
        if (::mkdirat(parent->get(), name.c_str(), 0700) == 0) {
            if (const result<void> synced = files::sync(parent->get(), directory); !synced) return synced.error();
        } else if (errno != EEXIST) {
            return os_error(errno, "couldn't create the run's directory '" + run.path_ + "'");
        }
    }
    result<unique_fd> fd = files::open_directory(parent->get(), name, run.path_);
    if (!fd) {
        if (fd.error().os_errno != ELOOP && fd.error().os_errno != ENOTDIR) return std::move(fd).error();
        return fail(code::invalid, "couldn't use the run's directory '" + run.path_ +
                                       "': it is a link or a file; give the directory itself, or another name");
    }
    run.fd_ = std::move(*fd);
    struct stat info {};
    if (create && is_place_id(name) && ::fstatat(run.fd_.get(), std::string(owner_name).c_str(), &info, 0) == 0)
        return fail(code::invalid,
                    "couldn't use '" + run.path_ + "' as a run's directory: it holds another run's packs");
    // Whoever may read a run may look at it (varde ls).
    if (create) {
        if (const result<void> owned = check_owner(run.fd_.get(), run.path_); !owned) return owned.error();
    }
    return run;
}

result<roster> run_directory::open_roster(bool create) {
    if (create && ::mkdirat(fd_.get(), "roster", 0700) != 0 && errno != EEXIST)
        return os_error(errno, "couldn't create '" + path_ + "/roster'");
    result<unique_fd> directory = files::open_directory(fd_.get(), "roster", path_ + "/roster");
    if (!directory) return std::move(directory).error();
    return roster::open(std::move(*directory));
}

result<std::vector<generation>> run_directory::list() const {
    const result<std::vector<generation_id>> ids = read_generations(fd_.get(), path_);
    if (!ids) return ids.error();
    const result<bool> links = may_have_links();
    if (!links) return links.error();
    std::vector<generation> all;
    for (const generation_id id : *ids) {
        result<judged> of = judge(fd_.get(), path_, id);
        if (!of && of.error().what == code::not_found) continue;  // retired since, or no directory
        if (!of) return std::move(of).error();
        // A link says that there was a pack, not that there is one.
        if (!of->what.committed || *links) {
            if (const result<void> measured = measure(*of); !measured) return measured.error();
        }
        all.push_back(std::move(of->what));
    }
    return all;
}

result<bool> run_directory::may_have_links() const {
    return mounts_.empty() ? has_places({fd_.get(), path_}) : result<bool>(true);
}

result<generation> run_directory::choose(const generation_id* before) const {
    const result<std::vector<generation_id>> ids = read_generations(fd_.get(), path_);
    if (!ids) return ids.error();
    candidates of_run(before);
    for (const generation_id id : *ids) {
        result<judged> of = judge_with_sizes(fd_.get(), path_, id);
        if (!of && of.error().what == code::not_found) continue;
        if (!of) return std::move(of).error();
        if (of_run.take(of->what)) return std::move(of->what);
    }
    return of_run.none(path_);
}

result<generation> run_directory::choose_step(uint64_t step) const {
    const result<std::vector<generation_id>> ids = read_generations(fd_.get(), path_);
    if (!ids) return ids.error();
    std::string reason = "there is no such generation";
    for (const generation_id id : *ids) {
        if (id.step != step) continue;
        result<judged> of = judge_with_sizes(fd_.get(), path_, id);
        if (!of && of.error().what == code::not_found) continue;
        if (!of) return std::move(of).error();
        if (of->what.status == generation_status::complete) return std::move(of->what);
        reason = of->what.status == generation_status::damaged ? of->what.reason : "it was not finished";
    }
    return fail(code::not_found,
                "couldn't use the checkpoint of step " + std::to_string(step) + " in '" + path_ + "': " + reason);
}

}  // namespace varde::store
