// varde-agent: one process per job and node, running as the job's user; it owns the arena and does all I/O.
//
// Started by the prolog with the listening socket as an inherited descriptor, or by the library (--embedded), which
// then gets an agent that ends with its last rank.  People do not start it; its state is seen with `varde ls` and in
// the run's directory.
#include "agent/holder.h"
#include "agent/host_memory.h"
#include "agent/log.h"
#include "agent/plan.h"
#include "base/options.h"
#include "base/units.h"
#include "config/config.h"

#include "varde.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <getopt.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <type_traits>
#include <unistd.h>

namespace {

using namespace varde;

struct arguments {
    int listen_fd = -1;
    int ready_fd = -1;
    std::string socket;  // embedded
    std::string config_file;
    std::string plan_file;
    agent::arena_wish arena;
    bool max_restarts_given = false;
    bool final_exits_given = false;
    agent::settings with;
};

constexpr const char* usage =
    "usage: varde-agent --listen-fd N --ready-fd N --job ID --arena-bytes N [--huge-pages BYTES] [--plan FILE]\n"
    "                   [--restart-count N] [--slurm-bin DIR] [--config FILE] [--max-restarts N]\n"
    "                   [--final-exits LIST]  (by the prolog)\n"
    "       varde-agent --embedded --socket PATH [--arena-bytes N] [--config FILE]  (by the library)\n";

// An embedded agent inside a Slurm job, where no prolog has started one: it can still requeue the job, if the host's
// scontrol is in sight.
void find_job(arguments& given) {
    const auto number = [](const char* name) {
        const char* text = ::getenv(name);
        auto value = text != nullptr ? parse_number(text, UINT32_MAX) : result<uint64_t>(uint64_t{0});
        return value ? *value : 0;
    };
    if (given.with.job_id == 0) given.with.job_id = number("SLURM_JOB_ID");
    if (given.with.restart_count == 0) given.with.restart_count = number("SLURM_RESTART_COUNT");
}

enum : int {
    listen_fd = 1,
    ready_fd,
    job,
    restart_count,
    arena,
    huge_pages,
    plan,
    slurm_bin,
    config_file,
    max_restarts,
    final_exits,
    embedded,
    socket_path,
    version
};
constexpr option option_names[] = {{"listen-fd", required_argument, nullptr, listen_fd},
                                   {"ready-fd", required_argument, nullptr, ready_fd},
                                   {"job", required_argument, nullptr, job},
                                   {"restart-count", required_argument, nullptr, restart_count},
                                   {"arena-bytes", required_argument, nullptr, arena},
                                   {"huge-pages", required_argument, nullptr, huge_pages},
                                   {"plan", required_argument, nullptr, plan},
                                   {"slurm-bin", required_argument, nullptr, slurm_bin},
                                   {"config", required_argument, nullptr, config_file},
                                   {"max-restarts", required_argument, nullptr, max_restarts},
                                   {"final-exits", required_argument, nullptr, final_exits},
                                   {"embedded", no_argument, nullptr, embedded},
                                   {"socket", required_argument, nullptr, socket_path},
                                   {"version", no_argument, nullptr, version},
                                   {nullptr, 0, nullptr, 0}};

result<void> take_option(arguments& given, int which, const std::string& text) {
    const auto number = [&](auto& target, uint64_t most) -> result<void> {
        auto value = parse_number(text, most);
        if (!value) return value.error();
        target = static_cast<std::remove_reference_t<decltype(target)>>(*value);
        return {};
    };
    switch (which) {
    case listen_fd: return number(given.listen_fd, INT32_MAX);
    case ready_fd: return number(given.ready_fd, INT32_MAX);
    case job: return number(given.with.job_id, UINT32_MAX);
    case restart_count: return number(given.with.restart_count, UINT32_MAX);
    case arena: return number(given.arena.size_bytes, 1ULL << 50);
    case huge_pages: return number(given.arena.huge_page_bytes, 1ULL << 30);
    case plan: given.plan_file = text; return {};
    case max_restarts: given.max_restarts_given = true; return number(given.with.max_restarts, UINT32_MAX);
    case final_exits: {
        auto codes = parse_exit_codes(text);
        if (!codes) return codes.error();
        given.final_exits_given = true;
        given.with.final_exits = *codes;
        return {};
    }
    case slurm_bin: given.with.slurm_bin = text; return {};
    case config_file: given.config_file = text; return {};
    case embedded: given.with.embedded = true; return {};
    case socket_path: given.socket = text; return {};
    case version: std::puts("varde-agent " VARDE_VERSION); std::exit(0);
    default: return fail(code::invalid, usage);
    }
}

// --ckpt-memory of the job whose rank has started us; the nearer variable wins (base/options.h).
result<options> job_memory() {
    const auto get = [](const char* name) -> const char* { return ::getenv(name); };
    auto near = options_from_environment("VARDE_", get);
    if (!near || near->memory_bytes || near->memory_percent) return near;
    return options_from_environment("SLURM_VARDE_", get);
}

// What the command line leaves open, from varde.yaml and the machine.
result<void> fill_in(arguments& given) {
    auto site = given.config_file.empty() ? load_config() : load_config(given.config_file);
    if (!site) return site.error();
    given.with.chunk_bytes = site->chunk_bytes;
    given.with.pulse_ms = site->pulse_ms;
    given.with.silence_ns = uint64_t{site->silence_s} * 1'000'000'000;
    given.with.mounts = site->mounts;
    given.with.write_bytes_per_s = site->write_bytes_per_s;
    given.with.node_mtbf_ns = uint64_t{site->node_mtbf_h} * 3600 * 1'000'000'000;
    given.with.keep = site->keep;
    given.with.hang_timeout_s = site->hang_timeout_s;
    if (!given.max_restarts_given) given.with.max_restarts = site->max_restarts;
    if (!given.final_exits_given) given.with.final_exits = site->final_exits;
    if (given.with.embedded) find_job(given);
    if (given.with.slurm_bin.empty() && given.with.job_id != 0) {
        given.with.slurm_bin = site->bin_dir.empty() ? "/usr/bin" : site->bin_dir;
        if (::access((given.with.slurm_bin + "/scontrol").c_str(), X_OK) != 0) given.with.slurm_bin.clear();
    }
    if (given.arena.size_bytes == 0) {
        const auto job = given.with.embedded ? job_memory() : result<options>(options{});
        if (!job) return job.error();
        given.arena.size_bytes =
            arena_bytes(*site, job->memory_bytes, job->memory_percent, agent::usable_memory_bytes());
    }
    return {};
}

result<arguments> parse(int argc, char** argv) {
    arguments given;
    for (int which = 0; (which = ::getopt_long(argc, argv, "", option_names, nullptr)) != -1;) {
        const std::string text = optarg != nullptr ? optarg : "";
        if (auto done = take_option(given, which, text); !done)
            return fail(code::invalid, std::string(argv[optind - 1]) + ": " + done.error().context);
    }
    const bool sound = given.with.embedded ? !given.socket.empty() : given.listen_fd > 2;
    if (!sound || optind != argc) return fail(code::invalid, usage);
    if (auto done = fill_in(given); !done) return done.error();
    return given;
}

// The listening socket of an embedded agent.  Its directory is the library's business (0700, checked there).
result<unique_fd> bind_socket(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path)
        return fail(code::invalid, "the socket's path '" + path + "' is too long");
    std::memcpy(address.sun_path, path.c_str(), path.size());
    unique_fd listening(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!listening) return os_error(errno, "couldn't make a socket");
    ::unlink(path.c_str());  // of an agent that has died; the caller holds the lock that makes this safe
    if (::bind(listening.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listening.get(), 128) != 0) {
        return os_error(errno, "couldn't listen on '" + path + "'");
    }
    return listening;
}

// Leaves the caller: the first process ends with 0 once the socket listens.
void leave_parent() {
    const pid_t pid = ::fork();
    if (pid != 0) ::_exit(pid > 0 ? 0 : 1);
    ::setsid();
}

// The library's host program may have left descriptors open that a daemon must not keep.
void close_foreign(int listening) {
    if (listening > 3) ::close_range(3, static_cast<unsigned>(listening) - 1, 0);
    ::close_range(static_cast<unsigned>(listening) + 1, ~0U, 0);
}

// Only when nothing can fail any more: until then a reason goes to standard error, which the library reads.
void leave_streams() {
    for (const int fd : {0, 1, 2}) {
        const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null >= 0 && null != fd) ::dup2(null, fd);
        if (null > 2) ::close(null);
    }
}

// A rank and a pack take one descriptor each; the soft limit is a habit for select(), which is not used here.
void raise_descriptors() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    discard(::setrlimit(RLIMIT_NOFILE, &limit), "the soft limit is enough for all but very large restarts");
}

std::string host_name() {
    if (const char* node = ::getenv("SLURMD_NODENAME"); node != nullptr && *node != '\0') return node;
    char text[64] = "";
    ::gethostname(text, sizeof text - 1);
    if (char* dot = std::strchr(text, '.')) *dot = '\0';
    return text;
}

// The prolog's plan; an agent of the library's makes its own, where there is more than one place.
result<void> follow_plan(arguments& given) {
    auto plan = given.plan_file.empty() ? agent::plan_here(given.arena.size_bytes) : agent::read_plan(given.plan_file);
    if (!plan) return plan.error();
    for (const auto& share : plan->shares) given.arena.shares.push_back({static_cast<int>(share.node), share.bytes});
    given.with.writer_cpus = plan->writers;
    return {};
}

int complain(const arguments& given, const failure& why) {
    agent::logger log("agent");
    log.error(why.context);
    const std::string line = "degraded " + why.context + "\n";
    if (given.ready_fd >= 0)
        discard(static_cast<int>(::write(given.ready_fd, line.data(), line.size())),
                "the prolog has a deadline of its own");
    else std::fprintf(stderr, "varde-agent: %s\n", why.context.c_str());
    return 1;
}

}  // namespace

int main(int argc, char** argv) {
    auto given = parse(argc, argv);
    if (!given) return complain({}, given.error());
    ::umask(0077);
    sigset_t blocked;
    sigemptyset(&blocked);
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGCHLD}) sigaddset(&blocked, number);
    ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);  // read through a signalfd, in every thread

    given->with.host = host_name();
    auto listening = given->with.embedded ? bind_socket(given->socket) : result<unique_fd>(unique_fd(given->listen_fd));
    if (!listening) return complain(*given, listening.error());
    ::fcntl(listening->get(), F_SETFL, ::fcntl(listening->get(), F_GETFL) | O_NONBLOCK);
    ::fcntl(listening->get(), F_SETFD, FD_CLOEXEC);
    if (given->with.embedded) close_foreign(listening->get());
    raise_descriptors();
    const auto planned = follow_plan(*given);
    auto made = agent::make_memory(given->arena);
    if (!made) return complain(*given, made.error());
    if (given->ready_fd >= 0) {
        discard(static_cast<int>(::write(given->ready_fd, "ready\n", 6)), "the prolog has a deadline of its own");
        ::close(given->ready_fd);
    }
    leave_streams();
    if (given->with.embedded) leave_parent();
    given->with.parts = std::move(made->parts);
    agent::logger log(given->with.host);
    if (!planned) log.warning("the arena and the writers have no places: " + planned.error().context);
    if (!made->refusal.empty()) log.warning(made->refusal);
    return agent::run_holder(std::move(*listening), std::move(made->memory), given->with);
}
