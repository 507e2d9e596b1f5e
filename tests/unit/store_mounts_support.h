// Mounts of a test's own: two small file systems that can be taken away and come back as they were.
#pragma once

#include "store_support.h"

#include "store/place.h"

namespace store_test {

// Makes `flash0` and `flash1` mount points, for this process alone.  The file systems are mounted beside them, and
// bound there: what is unmounted is not lost.
class mounted {
public:
    explicit mounted(const char* options = "size=32m", const char* below = nullptr) : at(below) {
        for (const char* name : {"flash0", "flash1"}) {
            mounts.push_back(at.path() + "/" + name);
            beside_.push_back(at.path() + "/beside-" + name);
            std::filesystem::create_directory(mounts.back());
            std::filesystem::create_directory(beside_.back());
        }
        std::filesystem::create_directory(at.path() + "/runs");
        allowed = ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
        for (size_t i = 0; i < mounts.size() && allowed; ++i) {
            allowed = ::mount("none", beside_[i].c_str(), "tmpfs", 0, options) == 0;
            if (allowed) bring(i);
        }
        if (!allowed) cr_skip_test("no mount namespace of our own here");
    }
    ~mounted() {
        for (const auto& all : {mounts, beside_})
            for (const std::string& each : all) ::umount2(each.c_str(), MNT_DETACH);
    }
    mounted(const mounted&) = delete;
    mounted& operator=(const mounted&) = delete;

    void take_away(size_t index) const { cr_assert_eq(::umount2(mounts[index].c_str(), MNT_DETACH), 0); }
    void bring(size_t index) const {
        cr_assert_eq(::mount(beside_[index].c_str(), mounts[index].c_str(), nullptr, MS_BIND, nullptr), 0);
    }

    run_directory open(const std::string& below = "runs") const {
        run_directory run = need(run_directory::open(at.path() + "/" + below, "run", true));
        run.spread_over(mounts);
        return run;
    }
    // The pack's path on its mount, by its link.
    static std::string true_path(const run_directory& run, generation_id id, uint32_t node, uint32_t nodes) {
        return std::filesystem::read_symlink(generation_path(run, id) + "/" + pack_name(node, nodes));
    }
    // The run's root on a mount.
    std::string root(const run_directory& run, size_t index) const {
        return mounts[index] + "/" + owner_directory_name(::geteuid()) + "/" +
               read_file(run.path() + "/place").substr(0, place_id_digits);
    }

    temporary_directory at;
    std::vector<std::string> mounts;
    bool allowed = false;

private:
    std::vector<std::string> beside_;
};

inline bool is_empty(const std::string& directory) { return std::filesystem::is_empty(directory); }

inline bool is_link(const std::string& path) { return std::filesystem::is_symlink(path); }

// Files and links below a directory whose name has `part`.
inline size_t count_below(const std::string& directory, const std::string& part) {
    size_t count = 0;
    for (const auto& each : std::filesystem::recursive_directory_iterator(directory))
        count += !each.is_directory() && each.path().filename().string().find(part) != std::string::npos;
    return count;
}

}  // namespace store_test
