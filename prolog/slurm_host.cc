// The parents' executables, and a look into slurm.conf.
#include "prolog/slurm_host.h"

#include "base/fields.h"
#include "config/trusted_file.h"
#include "prolog/process_table.h"

#include <array>
#include <climits>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>

namespace varde::node {

namespace {

constexpr int parents_max = 8;  // shell wrappers between slurmd and us
constexpr size_t slurm_conf_bytes_max = 8 << 20;

std::string lower(std::string_view text) {
    std::string made(text);
    for (char& c : made)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return made;
}

// A program that root may be told to run: root's file, which nobody else can change.
bool is_roots_program(const std::string& path) {
    struct stat about {};
    return ::stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == 0 &&
           (about.st_mode & (S_IWGRP | S_IWOTH)) == 0 && (about.st_mode & S_IXUSR) != 0;
}

std::optional<std::string> executable_of(pid_t pid) {
    std::array<char, PATH_MAX> target{};
    const std::string link = "/proc/" + std::to_string(pid) + "/exe";
    const ssize_t length = ::readlink(link.c_str(), target.data(), target.size());
    if (length <= 0 || static_cast<size_t>(length) == target.size()) return std::nullopt;
    return std::string(target.data(), static_cast<size_t>(length));
}

// Key and value of "PrologFlags = Alloc,DeferBatch  # comment", the key in lower case.
std::pair<std::string, std::string> setting_of(std::string_view line) {
    line = line.substr(0, line.find('#'));
    const size_t begin = line.find_first_not_of(" \t");
    const size_t equals = line.find('=');
    if (begin == std::string_view::npos) return {};
    if (equals == std::string_view::npos || equals < begin)
        return {lower(line.substr(begin, line.find_first_of(" \t\r", begin) - begin)), ""};
    std::string_view key = line.substr(begin, equals - begin);
    key = key.substr(0, key.find_last_not_of(" \t") + 1);
    return {lower(key), lower(line.substr(equals + 1))};
}

}  // namespace

std::optional<std::string> bin_directory_of(const std::string& executable) {
    const size_t name = executable.rfind('/');
    if (name == std::string::npos || name == 0 || executable.compare(name + 1, 5, "slurm") != 0) return std::nullopt;
    const size_t folder = executable.rfind('/', name - 1);
    if (folder == std::string::npos) return std::nullopt;
    return executable.substr(0, folder) + "/bin";
}

std::string find_bin_directory(const std::string& configured) {
    if (!configured.empty()) return configured;
    pid_t pid = ::getppid();
    for (int i = 0; i < parents_max && pid > 0; i++) {
        const auto executable = executable_of(pid);
        const auto directory = executable ? bin_directory_of(*executable) : std::nullopt;
        if (directory && is_roots_program(*directory + "/scontrol")) return *directory;
        const auto facts = read_process(pid);
        pid = facts ? facts->parent : 0;
    }
    return "/usr/bin";
}

std::optional<std::string> missing_prolog_flags(std::string_view slurm_conf) {
    std::optional<std::string> flags;
    bool includes = false;
    while (!slurm_conf.empty()) {
        const auto [key, value] = setting_of(take_until(slurm_conf, '\n'));
        if (key == "prologflags") flags = value;
        if (key == "include") includes = true;
    }
    if (!flags && includes) return std::nullopt;
    const std::string given = flags.value_or("");
    const auto has = [&](const char* flag) { return given.find(flag) != std::string::npos; };
    std::string missing;
    if (!has("alloc") && !has("contain") && !has("runinjob")) missing = "Alloc";
    if (!has("deferbatch")) missing += missing.empty() ? "DeferBatch" : " and DeferBatch";
    if (missing.empty()) return std::nullopt;
    return "PrologFlags lacks " + missing + ", a batch script may start before all its nodes have an agent; " +
           "set PrologFlags=Alloc,DeferBatch in slurm.conf";
}

std::optional<std::string> missing_prolog_flags_here() {
    const char* given = std::getenv("SLURM_CONF");
    const std::string path = given != nullptr ? given : "/etc/slurm/slurm.conf";
    const auto text = read_trusted_file(AT_FDCWD, path, path, slurm_conf_bytes_max);
    // A configuration of another owner or place is not ours to judge.
    return text ? missing_prolog_flags(*text) : std::nullopt;
}

}  // namespace varde::node
