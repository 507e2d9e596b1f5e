// Figures of this machine: a table for people, then one line of JSON per figure.
//
//   bench [--directory DIR] [--bytes SIZE] [--pairs N] [FIGURE...]
//
// DIR is where checkpoints would go (default: the current directory); the bench makes a folder there and removes it.
// Exit: 0 every goal is met; 1 one is missed, or a figure could not be taken; 2 usage.
#include "figure.h"

#include "base/clock.h"
#include "base/units.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <getopt.h>
#include <nlohmann/json.hpp>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace varde::bench {

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const size_t half = values.size() / 2;
    return values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double seconds_since(uint64_t start_ns) {
    return static_cast<double>(mono_ns() - start_ns) / static_cast<double>(ns_per_s);
}

double seconds_of(const std::function<void()>& work) {
    const uint64_t start = mono_ns();
    work();
    return seconds_since(start);
}

void progress(const std::string& line) {
    if (::isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r\033[K%s", line.c_str());
}

namespace {

struct entry {
    const char* name;
    result<figure> (*measure)(const settings&);
};
constexpr entry entries[] = {
    {"write_vs_fio", write_vs_fio},
    {"choose_ms", choose_time},
    {"roster_ms", roster_time},
    {"due_ns", due_time},
};

std::string file_system_of(const std::string& path) {
    struct statfs info {};
    if (::statfs(path.c_str(), &info) != 0) return "unknown";
    char text[24] = "";
    std::snprintf(text, sizeof text, "0x%lx", static_cast<unsigned long>(info.f_type));
    return text;
}

double load_average() {
    double load = 0;
    return ::getloadavg(&load, 1) == 1 ? load : 0;
}

void print(const figure& one, const settings& with, double load) {
    utsname host{};
    ::uname(&host);
    const nlohmann::ordered_json line{{"figure", one.name},
                                      {"value", one.value},
                                      {"unit", one.unit},
                                      {"goal", one.goal},
                                      {"met", one.met()},
                                      {"pairs", one.pairs},
                                      {"remark", one.remark},
                                      {"kernel", host.release},
                                      {"machine", host.machine},
                                      {"cpus", ::sysconf(_SC_NPROCESSORS_ONLN)},
                                      {"load", load},
                                      {"file_system", file_system_of(with.directory)}};
    std::printf("%s\n", line.dump().c_str());
}

void print_table(const std::vector<figure>& taken, double load) {
    std::printf("%-14s %12s %14s %8s  %s\n", "FIGURE", "VALUE", "GOAL", "", "REMARK");
    for (const figure& one : taken) {
        std::printf("%-14s %9.3f %-2s %s %9.3f %-2s %8s  %s\n", one.name.c_str(), one.value, one.unit.c_str(),
                    one.at_least ? ">=" : "<=", one.goal, one.unit.c_str(), one.met() ? "met" : "missed",
                    one.remark.c_str());
    }
    // The checksum of a checkpoint needs a core to itself; fio needs next to none.
    if (load > static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN)) / 2)
        std::printf("The machine was busy before the bench began (load %.1f): its own figures are better than these.\n",
                    load);
}

int usage() {
    std::fprintf(stderr, "usage: bench [--directory DIR] [--bytes SIZE] [--pairs N] [FIGURE...]\nfigures:");
    for (const entry& one : entries) std::fprintf(stderr, " %s", one.name);
    std::fprintf(stderr, "\n");
    return 2;
}

bool read_arguments(int argc, char** argv, settings& with) {
    static const option options[] = {{"directory", required_argument, nullptr, 'd'},
                                     {"bytes", required_argument, nullptr, 'b'},
                                     {"pairs", required_argument, nullptr, 'p'},
                                     {nullptr, 0, nullptr, 0}};
    for (int chosen = 0; (chosen = ::getopt_long(argc, argv, "", options, nullptr)) != -1;) {
        if (chosen == 'd') {
            with.directory = optarg;
        } else if (chosen == 'b') {
            const result<uint64_t> size = parse_size_bytes(optarg);
            if (!size || *size < (64ULL << 20)) return false;
            with.size_bytes = *size;
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
                           [&](const entry& one) { return std::string(one.name) == name; });
    });
}

int run(int argc, char** argv) {
    settings with;
    with.directory = ".";
    with.program_directory = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    if (!read_arguments(argc, argv, with)) return usage();
    with.directory = std::filesystem::absolute(with.directory).lexically_normal().string() + "/varde-bench-XXXXXX";
    if (::mkdtemp(with.directory.data()) == nullptr) {
        std::fprintf(stderr, "bench: couldn't create '%s'\n", with.directory.c_str());
        return 1;
    }
    const double load = load_average();
    std::vector<figure> taken;
    bool failed = false;
    for (const entry& one : entries) {
        const bool wanted = optind == argc || std::any_of(argv + optind, argv + argc, [&](const char* name) {
                                return std::string(one.name) == name;
                            });
        if (!wanted) continue;
        result<figure> got = one.measure(with);
        progress("");
        if (got) {
            taken.push_back(std::move(*got));
        } else {
            std::fprintf(stderr, "bench: couldn't take '%s': %s\n", one.name, got.error().context.c_str());
            failed = true;
        }
    }
    print_table(taken, load);
    for (const figure& one : taken) print(one, with, load);
    std::error_code ignored;
    std::filesystem::remove_all(with.directory, ignored);
    return failed || !std::all_of(taken.begin(), taken.end(), [](const figure& one) { return one.met(); }) ? 1 : 0;
}

}  // namespace
}  // namespace varde::bench

int main(int argc, char** argv) { return varde::bench::run(argc, argv); }
