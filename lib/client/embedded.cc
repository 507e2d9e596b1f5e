// Starting the agent: the directory, the lock, the program, the spawn.
#include "client/embedded.h"

#include "client/connect.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace varde::client {

namespace {

constexpr int pause_ms = 10;
constexpr int reap_attempts = 100;  // a killed process ends within a second unless storage holds it in the kernel

void pause_briefly() { discard(::poll(nullptr, 0, pause_ms), "only a pause"); }

// FNV-1a: a name for files, not a secret; the directory is this user's own.
std::string hash_text(std::string_view text) {
    uint64_t hash = 0xcbf29ce484222325;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    std::array<char, 17> digits{};
    std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(hash));
    return digits.data();
}

// true: `path` is a directory, not a link, and nobody but this user can enter it.
bool is_private(const std::string& path) {
    struct stat found {};
    return ::lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == ::geteuid() &&
           (found.st_mode & 077) == 0;
}

bool is_file(const unique_fd& file, const std::string& path) {
    struct stat open {};
    struct stat named {};
    return ::fstat(file.get(), &open) == 0 && ::lstat(path.c_str(), &named) == 0 && open.st_ino == named.st_ino &&
           open.st_dev == named.st_dev;
}

result<unique_fd> lock_file(const std::string& path, deadline until) {
    for (;;) {
        unique_fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
        if (!file) return os_error(errno, "couldn't open '" + path + "'");
        if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
            // While we waited it may have been swept away as a left-over; then another one has its name.
            if (is_file(file, path)) return file;
        } else if (errno != EWOULDBLOCK && errno != EINTR) {
            return os_error(errno, "couldn't lock '" + path + "'");
        }
        if (until.passed())
            return fail(code::timeout,
                        "couldn't lock '" + path + "': another rank has been starting the agent for too long");
        pause_briefly();
    }
}

bool is_dead(const std::string& socket_path) {
    const auto socket = connect_to(socket_path, deadline::in_ms(0));
    return !socket && (socket.error().what == code::not_found || socket.error().what == code::unavailable);
}

// Earlier starts leave their lock, log and socket behind; those whose agent is dead go, under their own lock.
void sweep(const std::string& directory) {
    DIR* listing = ::opendir(directory.c_str());
    if (listing == nullptr) return;
    while (const dirent* entry = ::readdir(listing)) {
        const std::string_view name = entry->d_name;
        if (!name.ends_with(".lock")) continue;
        const std::string base = directory + '/' + std::string(name.substr(0, name.size() - 5));
        const unique_fd lock(::open((base + ".lock").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
        if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 || !is_dead(base + ".sock")) continue;
        for (const char* kind : {".sock", ".log", ".lock"})
            discard(::unlink((base + kind).c_str()), "it may be gone already, and is only litter");
    }
    ::closedir(listing);
}

std::string directory_name(const std::string& path) {
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash);
}

// The last line that the program left in its log.
std::string last_words(const std::string& path) {
    const unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    std::array<char, 2048> buffer{};
    const ssize_t length = file ? ::read(file.get(), buffer.data(), buffer.size()) : 0;
    if (length <= 0) return "it left no message";
    std::string_view text(buffer.data(), static_cast<size_t>(length));
    while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
    return std::string(text.substr(text.rfind('\n') + 1));
}

struct spawn_settings {
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t files;
    spawn_settings() {
        ::posix_spawnattr_init(&attributes);
        ::posix_spawn_file_actions_init(&files);
    }
    ~spawn_settings() {
        ::posix_spawn_file_actions_destroy(&files);
        ::posix_spawnattr_destroy(&attributes);
    }
    spawn_settings(const spawn_settings&) = delete;
    spawn_settings& operator=(const spawn_settings&) = delete;
};

// The agent gets a session of its own, default signals and no file of the training program but /dev/null and its log;
// it closes what else it has inherited itself, because the program's files need not be close-on-exec.
result<pid_t> spawn(const std::string& program, const std::string& socket, const std::string& log) {
    spawn_settings how;
    sigset_t all;
    sigset_t none;
    ::sigfillset(&all);
    ::sigemptyset(&none);
    ::posix_spawnattr_setsigdefault(&how.attributes, &all);
    ::posix_spawnattr_setsigmask(&how.attributes, &none);
    ::posix_spawnattr_setflags(&how.attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    ::posix_spawn_file_actions_addopen(&how.files, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&how.files, 1, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_addopen(&how.files, 2, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    std::string name = "varde-agent";
    std::string mode = "--embedded";
    std::string option = "--socket";
    std::string path = socket;
    const std::array<char*, 5> arguments{name.data(), mode.data(), option.data(), path.data(), nullptr};
    pid_t child = -1;
    const int error = ::posix_spawn(&child, program.c_str(), &how.files, &how.attributes, arguments.data(), ::environ);
    if (error != 0) return os_error(error, "couldn't start the agent '" + program + "'");
    return child;
}

// The program's first process ends with 0 once the socket listens.
result<void> await(pid_t child, const std::string& program, const std::string& log, deadline until) {
    for (;;) {
        int status = 0;
        const pid_t ended = ::waitpid(child, &status, WNOHANG);
        // ECHILD: the training program ignores SIGCHLD or has waited for every child; the socket tells how it went.
        if (ended < 0 && errno == ECHILD) return {};
        if (ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
        if (ended == child)
            return fail(code::unavailable, "couldn't start the agent '" + program + "': it ended with " +
                                               (WIFEXITED(status) ? "exit code " + std::to_string(WEXITSTATUS(status))
                                                                  : "signal " + std::to_string(WTERMSIG(status))) +
                                               " and said: " + last_words(log));
        if (until.passed()) {
            discard(::kill(child, SIGKILL), "it is our own child and not waited for, so the number is still its");
            for (int i = 0; i < reap_attempts && ::waitpid(child, nullptr, WNOHANG) == 0; i++) pause_briefly();
            return fail(code::timeout, "couldn't start the agent '" + program +
                                           "': it was not ready in time and was ended; see '" + log + "'");
        }
        pause_briefly();
    }
}

result<unique_fd> connect_patiently(const std::string& path, deadline until) {
    for (;;) {
        auto socket = connect_to(path, until);
        const bool absent =
            !socket && (socket.error().what == code::not_found || socket.error().what == code::unavailable);
        if (!absent || until.passed()) return socket;
        pause_briefly();
    }
}

}  // namespace

result<std::string> embedded_directory(environment get) {
    const std::string name = "/varde-" + std::to_string(::geteuid());
    std::string base = "/tmp";
    // Slurm hands the login node's variable on to nodes where that directory does not exist.
    const char* runtime = get("XDG_RUNTIME_DIR");
    if (runtime != nullptr && *runtime == '/' && is_private(runtime)) base = runtime;
    const std::string path = base + name;
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
        return os_error(errno, "couldn't make the directory '" + path + "'");
    if (!is_private(path))
        return fail(code::unavailable, "couldn't use the directory '" + path +
                                           "' for the agent's socket: it is no directory of user " +
                                           std::to_string(::geteuid()) +
                                           " that is closed to others (mode 0700); remove it, or set "
                                           "XDG_RUNTIME_DIR to a directory of your own");
    return path;
}

result<std::string> agent_program(environment get) {
    if (const char* given = get("VARDE_AGENT"); given != nullptr && *given != '\0') return std::string(given);
    std::array<std::string, 6> places;
    size_t count = 0;
    Dl_info here{};
    if (::dladdr(reinterpret_cast<const void*>(&agent_program), &here) != 0 && here.dli_fname != nullptr) {
        const std::string library = directory_name(here.dli_fname);
        for (const char* near : {"/../bin", "/../libexec/varde", "/../../libexec/varde", "/bin"})
            places[count++] = library + near;
    }
    // A copy of the library that stands alone (a wheel, a venv) finds the host's installation.
    for (const char* usual : {"/usr/local/libexec/varde", "/usr/libexec/varde"}) places[count++] = usual;
    std::string tried;
    for (size_t i = 0; i < count; i++) {
        const std::string path = places[i] + "/varde-agent";
        if (::access(path.c_str(), X_OK) == 0) return path;
        tried += (tried.empty() ? "'" : ", '") + path + "'";
    }
    return fail(code::unavailable,
                "couldn't find the program varde-agent at " + tried + "; set VARDE_AGENT to its path");
}

result<embedded_agent> embedded_connect(std::string_view launch, const std::string& host, environment get,
                                        deadline until) {
    auto directory = embedded_directory(get);
    if (!directory) return std::move(directory).error();
    // The host's name belongs to it where the directory is shared between machines.
    const std::string base = *directory + '/' + hash_text(host + ' ' + std::string(launch));
    const std::string path = base + ".sock";
    auto lock = lock_file(base + ".lock", until);
    if (!lock) return std::move(lock).error();
    auto socket = connect_to(path, until);
    if (socket) return embedded_agent{std::move(*socket), path};
    if (socket.error().what != code::not_found && socket.error().what != code::unavailable)
        return std::move(socket).error();

    auto program = agent_program(get);
    if (!program) return std::move(program).error();
    sweep(*directory);
    if (::unlink(path.c_str()) != 0 && errno != ENOENT)
        return os_error(errno, "couldn't remove the dead socket '" + path + "'");
    const std::string log = base + ".log";
    const auto child = spawn(*program, path, log);
    if (!child) return child.error();
    if (auto ready = await(*child, *program, log, until); !ready) return std::move(ready).error();
    auto connected = connect_patiently(path, until);
    if (!connected) return std::move(connected).error();
    return embedded_agent{std::move(*connected), path};
}

}  // namespace varde::client
