// Finds out what a path is.
#include "cli/target.h"

#include "base/options.h"
#include "pack/text.h"
#include "store/files.h"
#include "store/names.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>

namespace varde::cli {

namespace {

struct release {
    void operator()(char* text) const noexcept { std::free(text); }
};

result<std::vector<std::string>> names_in(const std::string& path) {
    const unique_fd directory(store::files::open_at(AT_FDCWD, path.c_str(), O_RDONLY | O_DIRECTORY));
    if (!directory) return os_error(errno, "couldn't open the directory " + pack::in_quotes(path));
    auto names = store::files::read_names(directory.get(), path);
    if (names) std::sort(names->begin(), names->end());
    return names;
}

// A run has generations, or at least the roster that its first start makes.
bool is_run(const std::vector<std::string>& names) {
    return std::any_of(names.begin(), names.end(), [](const std::string& name) {
        return name == "roster" || store::parse_generation_name(name).has_value();
    });
}

// Runs one level below.  What is no directory, or cannot be a run by its name, is not looked into.
result<std::vector<std::string>> find_runs(const std::string& path, const std::vector<std::string>& names) {
    std::vector<std::string> runs;
    for (const std::string& name : names) {
        const std::string below = path + "/" + name;
        struct stat info {};
        if (!check_run_name(name) || ::lstat(below.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) continue;
        const auto inside = names_in(below);
        if (!inside) return inside.error();
        if (is_run(*inside)) runs.push_back(below);
    }
    return runs;
}

result<target> directory_target(std::string path) {
    target found;
    found.path = std::move(path);
    const auto names = names_in(found.path);
    if (!names) return names.error();
    if (const auto id = store::parse_generation_name(name_of(found.path))) {
        found.kind = target_kind::generation;
        found.id = *id;
        found.runs.push_back(parent_of(found.path));
        return found;
    }
    if (is_run(*names)) {
        found.kind = target_kind::run;
        found.runs.push_back(found.path);
        return found;
    }
    auto runs = find_runs(found.path, *names);
    if (!runs) return std::move(runs).error();
    if (runs->empty())
        return fail(code::not_found, "couldn't find a run in " + pack::in_quotes(found.path) +
                                         ": neither it nor a directory in it has generations; give the directory of a "
                                         "run, as DIR of --ckpt-dir");
    found.kind = target_kind::runs;
    found.runs = std::move(*runs);
    return found;
}

}  // namespace

std::string parent_of(const std::string& path) {
    const size_t slash = path.rfind('/');
    return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

result<target> find_target(const std::string& path) {
    const std::unique_ptr<char, release> real(::realpath(path.c_str(), nullptr));
    struct stat info {};
    if (!real || ::stat(real.get(), &info) != 0) return os_error(errno, "couldn't open " + pack::in_quotes(path));
    if (S_ISDIR(info.st_mode)) return directory_target(real.get());
    if (!S_ISREG(info.st_mode))
        return fail(code::invalid, "couldn't read " + pack::in_quotes(path) + ": it is neither a directory nor a file");
    target found;
    found.path = real.get();
    return found;
}

result<store::run_directory> open_run(const std::string& path) {
    return store::run_directory::open(parent_of(path), name_of(path), false);
}

}  // namespace varde::cli
