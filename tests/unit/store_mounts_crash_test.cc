// Pulling the plug with packs on mounts: besides what store_crash_test wants, nothing may lie there that no link of the
// run names, at any moment.
#include "store_crash_support.h"
#include "store_mounts_support.h"

using namespace store_test;

namespace {

// Files below the mounts that no link in the run names.
std::vector<std::string> unnamed(const std::vector<std::string>& mounts, const std::string& home) {
    std::set<std::string> named;
    for (const auto& each : std::filesystem::recursive_directory_iterator(home)) {
        if (!each.is_symlink()) continue;
        const std::string target = std::filesystem::read_symlink(each.path());
        named.insert(target);
        named.insert(target + ".partial");
    }
    std::vector<std::string> found;
    for (const std::string& mount : mounts)
        for (const auto& each : std::filesystem::recursive_directory_iterator(mount))
            if (each.path().filename().string().starts_with("node-") && !named.contains(each.path()))
                found.push_back(each.path());
    return found;
}

void clear(const mounted& m) {
    for (const std::string& mount : m.mounts)
        for (const auto& each : std::filesystem::directory_iterator(mount)) std::filesystem::remove_all(each.path());
    std::filesystem::remove_all(m.at.path() + "/runs");
    std::filesystem::create_directory(m.at.path() + "/runs");
}

// What a power loss would drop, by full paths: data of files, and names in directories.
class unsynced_paths {
public:
    explicit unsynced_paths(const mounted& m) : m_(m) {}

    void note(const call& made) {
        const std::string path = path_of(made.args[0]);
        const std::string inside = path + "/" + made.text1;
        switch (made.number) {
        case SYS_openat:
            if ((made.args[2] & O_CREAT) != 0 && made.text1.ends_with(".partial") && on_mount(path)) {
                cr_assert(!any_at_home(), "'%s' is made before its link is durable", inside.c_str());
                ++files;
            }
            opened_[made.returned] = made.text1.starts_with("/") ? made.text1 : inside;
            break;
        case SYS_close: opened_.erase(static_cast<int32_t>(made.args[0])); break;
        case SYS_pwrite64:
        case SYS_fallocate:
        case SYS_mkdirat: unsynced_.insert(path); break;
        case SYS_symlinkat: unsynced_.insert(path_of(made.args[1])); break;
        case SYS_fsync: unsynced_.erase(path); break;
        case SYS_renameat:
        case SYS_renameat2:
            if (made.text2.starts_with("node-") && !on_mount(path)) {
                cr_assert(!any_on_mount(), "'%s' is named before what it leads to is durable", inside.c_str());
                ++links;
            }
            unsynced_.insert(path);
            break;
        case SYS_unlinkat: note_unlink(path, made); break;
        default: break;
        }
    }
    unsigned files = 0, links = 0, links_deleted = 0;

private:
    void note_unlink(const std::string& path, const call& made) {
        if ((made.args[2] & AT_REMOVEDIR) != 0) {
            unsynced_.erase(path + "/" + made.text1);
            unsynced_.insert(path);
        } else if (on_mount(path)) {
            unsynced_.insert(path);
        } else if (made.text1.starts_with("node-")) {
            cr_assert(!any_on_mount(), "a link goes before what it names is gone for good");
            ++links_deleted;
        }
    }
    std::string path_of(uint64_t fd) const {
        const auto found = opened_.find(static_cast<int32_t>(fd));
        return found == opened_.end() ? "" : found->second;
    }
    bool on_mount(const std::string& path) const {
        return path.starts_with(m_.mounts[0]) || path.starts_with(m_.mounts[1]);
    }
    bool any_on_mount() const {
        return std::any_of(unsynced_.begin(), unsynced_.end(), [&](const std::string& each) { return on_mount(each); });
    }
    bool any_at_home() const {
        return std::any_of(unsynced_.begin(), unsynced_.end(),
                           [&](const std::string& each) { return each.find("/runs/run/step-") != std::string::npos; });
    }

    const mounted& m_;
    std::map<int64_t, std::string> opened_;
    std::set<std::string> unsynced_;
};

}  // namespace

Test(mounts_crash, after_every_change_all_is_whole_and_nothing_there_is_without_a_link, .timeout = 300) {
    constexpr uint64_t last_step = 2;         // the second retires the first
    const mounted m("size=32m", "/dev/shm");  // as in store_crash_test
    const std::string home = m.at.path() + "/runs";
    const shared_number acknowledged;
    unsigned deaths = 0;
    while (true) {
        clear(m);
        *acknowledged.at = 0;
        const traced seen =
            run_traced([&]() { return write_all_steps(home, acknowledged.at, m.mounts, last_step); }, deaths + 1);
        if (!seen.allowed) cr_skip_test("no ptrace here");
        for (const std::string& each : unnamed(m.mounts, home))
            cr_assert(false, "after change %u: %s", deaths + 1, each.c_str());
        if (seen.finished) {
            cr_assert_eq(seen.status, 0);
            break;
        }
        ++deaths;
        if (exists(home + "/run")) check_after_death(home, *acknowledged.at, deaths, m.mounts);
        for (const std::string& each : unnamed(m.mounts, home))
            cr_assert(false, "after change %u and a successor: %s", deaths, each.c_str());
    }
    cr_assert_eq(*acknowledged.at, last_step);
    cr_assert_gt(deaths, 90, "the loop has killed the child only %u times: it does not see its calls", deaths);
}

Test(mounts_crash, a_link_comes_before_its_file_and_goes_after_it) {
    const mounted m;
    const shared_number acknowledged;
    const traced seen =
        run_traced([&]() { return write_all_steps(m.at.path() + "/runs", acknowledged.at, m.mounts); }, 0);
    if (!seen.allowed) cr_skip_test("no ptrace here");
    cr_assert(seen.finished && seen.status == 0);
    unsynced_paths order(m);
    for (const call& made : seen.calls)
        if (made.returned >= 0) order.note(made);
    cr_assert_eq(order.files, steps * node_count);
    cr_assert_eq(order.links, steps * node_count);
    cr_assert_eq(order.links_deleted, (steps - keep) * node_count);
}
