// Figures of this machine: a table for people, then one line of JSON per figure.
//
//   bench [--directory DIR] [--plots DIR] [--bytes SIZE] [--pairs N] [--huge-pages SIZE] [FIGURE...]
//
// --directory is where checkpoints would go (default: the current directory); the bench makes a folder there and
// removes it.  --plots gets bandwidth.svg and step_time.svg (default: beside the bench).  "bandwidth" asks for the
// first plot, which has no figure; "depths" for the table that the agent's depth and chunk size come from.
// --huge-pages: of the arenas, if the kernel's pool has some (vm.nr_hugepages, vm.nr_overcommit_hugepages).
// Exit: 0 every goal is met; 1 one is missed, or a figure could not be taken; 2 usage.
#include "figure.h"

#include "base/clock.h"
#include "base/units.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <getopt.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace varde::bench {

namespace {

struct entry {
    const char* names;  // of its figures; any of them asks for all
    result<figures> (*measure)(const settings&);
    bool only_by_name = false;
};
constexpr double busy_cores = 0.2;
constexpr entry entries[] = {
    {"write_vs_fio write_vs_plain", durable_figures},
    {"restore_vs_fio restore_vs_fio_copy", restore_figures},
    {"staging_vs_copy stall_ms_1gib", staging_figures},
    {"arena_pages_per_s", arena_figures},
    {"write_limit_error", limit_figures},
    {"due_ns", due_figures},
    {"agent_cpu_s_per_gb agent_overhead_mib", agent_figures},
    {"step_dip_percent", step_figures},
    {"choice_s roster_ms", store_figures},
    {"bandwidth", size_figures},
    {"depths", depth_table, true},
};

bool has_name(const entry& one, const std::string& name) {
    return (" " + std::string(one.names) + " ").find(" " + name + " ") != std::string::npos;
}

std::string file_system_of(const std::string& path) {
    struct statfs info {};
    if (::statfs(path.c_str(), &info) != 0) return "unknown";
    char text[24] = "";
    std::snprintf(text, sizeof text, "0x%lx", static_cast<unsigned long>(info.f_type));
    return text;
}

// Seconds that all cores have worked, and those of this program and of what it has started and seen end.
double busy_s() {
    std::ifstream stat("/proc/stat");
    std::string word;
    double user = 0, nice = 0, system = 0;
    stat >> word >> user >> nice >> system;
    return (user + nice + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}
double own_s() {
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    double total = 0;
    for (const int whose : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
        rusage used{};
        ::getrusage(whose, &used);
        total += seconds(used.ru_utime) + seconds(used.ru_stime);
    }
    return total;
}

// Cores that others have kept busy meanwhile: a figure taken on a busy machine is worth less.
struct neighbours {
    uint64_t start_ns = mono_ns();
    double before_s = busy_s() - own_s();
    double cores() const { return std::max(0.0, (busy_s() - own_s() - before_s) / seconds_since(start_ns)); }
};

void print(const figure& one, const settings& with) {
    utsname host{};
    ::uname(&host);
    const nlohmann::ordered_json line{{"figure", one.name},
                                      {"value", one.value},
                                      {"unit", one.unit},
                                      {"goal", one.goal},
                                      {"met", one.met()},
                                      {"pairs", one.samples.size()},
                                      {"least", *std::min_element(one.samples.begin(), one.samples.end())},
                                      {"most", *std::max_element(one.samples.begin(), one.samples.end())},
                                      {"remark", one.remark},
                                      {"kernel", host.release},
                                      {"machine", host.machine},
                                      {"cpus", ::sysconf(_SC_NPROCESSORS_ONLN)},
                                      {"others_cores", one.others_cores},
                                      {"file_system", file_system_of(with.directory)}};
    std::printf("%s\n", line.dump().c_str());
}

void print_table(const std::vector<figure>& taken) {
    std::printf("%-20s %11s %-5s %11s  %-6s %17s  %s\n", "FIGURE", "MEDIAN", "", "GOAL", "", "LEAST - MOST", "REMARK");
    double others_cores = 0;
    for (const figure& one : taken) {
        const auto [least, most] = std::minmax_element(one.samples.begin(), one.samples.end());
        std::printf("%-20s %11.3f %-5s %s %8.3f  %-6s %8.3f %8.3f  %s\n", one.name.c_str(), one.value, one.unit.c_str(),
                    one.at_least ? ">=" : "<=", one.goal, one.met() ? "met" : "MISSED", *least, *most,
                    one.remark.c_str());
        others_cores = std::max(others_cores, one.others_cores);
    }
    if (others_cores > busy_cores)
        std::printf("Other programs kept up to %.1f cores busy meanwhile: on a quiet machine these are better.\n",
                    others_cores);
}

int usage() {
    std::fprintf(
        stderr,
        "usage: bench [--directory DIR] [--plots DIR] [--bytes SIZE] [--pairs N] [--huge-pages SIZE] [FIGURE...]\n"
        "figures:");
    for (const entry& one : entries) std::fprintf(stderr, " %s", one.names);
    std::fprintf(stderr, "\n");
    return 2;
}

bool read_arguments(int argc, char** argv, settings& with) {
    static const option options[] = {
        {"directory", required_argument, nullptr, 'd'},  {"plots", required_argument, nullptr, 'o'},
        {"bytes", required_argument, nullptr, 'b'},      {"pairs", required_argument, nullptr, 'p'},
        {"huge-pages", required_argument, nullptr, 'h'}, {nullptr, 0, nullptr, 0}};
    for (int chosen = 0; (chosen = ::getopt_long(argc, argv, "", options, nullptr)) != -1;) {
        if (chosen == 'd') {
            with.directory = optarg;
        } else if (chosen == 'o') {
            with.plot_directory = optarg;
        } else if (chosen == 'b') {
            const result<uint64_t> size = parse_size_bytes(optarg);
            if (!size || *size < (64ULL << 20)) return false;
            with.size_bytes = *size;
        } else if (chosen == 'h') {
            const result<uint64_t> size = parse_size_bytes(optarg);
            if (!size) return false;
            with.agent_options = {"--huge-pages", std::to_string(*size)};
        } else if (chosen == 'p') {
            const result<uint64_t> pairs = parse_number(optarg, 1000);
            if (!pairs || *pairs == 0) return false;
            with.pairs = static_cast<unsigned>(*pairs);
        } else {
            return false;
        }
    }
    return std::all_of(argv + optind, argv + argc, [](const char* name) {
        return std::any_of(std::begin(entries), std::end(entries),
                           [&](const entry& one) { return has_name(one, name); });
    });
}

// True: all that was wanted could be taken.
bool take(const settings& with, const std::vector<std::string>& names, std::vector<figure>& taken) {
    bool whole = true;
    for (const entry& one : entries) {
        const auto named = [&](const std::string& name) { return has_name(one, name); };
        if (names.empty() ? one.only_by_name : std::none_of(names.begin(), names.end(), named)) continue;
        const neighbours beside;
        result<figures> got = one.measure(with);
        progress("");
        if (!got) {
            std::fprintf(stderr, "bench: couldn't take '%s': %s\n", one.names, got.error().context.c_str());
            whole = false;
            continue;
        }
        for (figure& each : *got) {
            each.others_cores = beside.cores();
            taken.push_back(std::move(each));
        }
    }
    return whole;
}

int run(int argc, char** argv) {
    settings with;
    with.directory = ".";
    with.program_directory = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    with.plot_directory = with.program_directory;
    if (!read_arguments(argc, argv, with)) return usage();
    with.directory = std::filesystem::absolute(with.directory).lexically_normal().string() + "/varde-bench-XXXXXX";
    if (::mkdtemp(with.directory.data()) == nullptr) {
        std::fprintf(stderr, "bench: couldn't create '%s'\n", with.directory.c_str());
        return 1;
    }
    std::vector<figure> taken;
    const bool whole = take(with, {argv + optind, argv + argc}, taken);
    if (!taken.empty()) print_table(taken);
    for (const figure& one : taken) print(one, with);
    std::error_code ignored;
    std::filesystem::remove_all(with.directory, ignored);
    return whole && std::all_of(taken.begin(), taken.end(), [](const figure& one) { return one.met(); }) ? 0 : 1;
}

}  // namespace
}  // namespace varde::bench

int main(int argc, char** argv) { return varde::bench::run(argc, argv); }
