// posix_spawn and a pidfd.
#include "cli/child.h"

#include "base/process.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <spawn.h>
#include <string_view>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace varde::cli {

namespace {

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& variables) {
    std::vector<std::string> all;
    for (char** one = environ; *one != nullptr; one++) {
        const std::string_view text(*one);
        const std::string_view name = text.substr(0, text.find('='));
        const bool ours =
            std::any_of(variables.begin(), variables.end(), [&](const auto& each) { return each.first == name; });
        if (!ours) all.emplace_back(text);
    }
    for (const auto& [name, value] : variables) all.push_back(name + "=" + value);
    return all;
}

}  // namespace

result<child> child::start(const std::vector<std::string>& arguments,
                           const std::vector<std::pair<std::string, std::string>>& variables) {
    const auto environment = environment_with(variables);
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&attributes, &none);  // ours are blocked for a signalfd
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    child made;
    const int failed = ::posix_spawnp(&made.pid_, arguments[0].c_str(), nullptr, &attributes,
                                      pointers(arguments).data(), pointers(environment).data());
    ::posix_spawnattr_destroy(&attributes);
    if (failed != 0) return os_error(failed, "couldn't start '" + arguments[0] + "'");
    made.process_.reset(static_cast<int>(::syscall(SYS_pidfd_open, made.pid_, 0)));
    return made;
}

std::optional<int> child::ended() {
    int status = 0;
    if (!status_ && ::waitpid(pid_, &status, WNOHANG) == pid_)
        status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return status_;
}

void child::pass_on(int signal) const {
    if (!status_) ::kill(pid_, signal);
}

std::string directory_of_program(const std::string& name) {
    const auto runs = [](const std::string& path) { return ::access(path.c_str(), X_OK) == 0; };
    if (const size_t slash = name.rfind('/'); slash != std::string::npos)
        return runs(name) ? name.substr(0, std::max<size_t>(slash, 1)) : std::string();
    const char* path = std::getenv("PATH");
    std::string_view rest = path != nullptr ? path : "";
    while (!rest.empty()) {
        const std::string directory(rest.substr(0, rest.find(':')));
        rest.remove_prefix(std::min(directory.size() + 1, rest.size()));
        if (!directory.empty() && runs(directory + "/" + name)) return directory;
    }
    return {};
}

}  // namespace varde::cli
