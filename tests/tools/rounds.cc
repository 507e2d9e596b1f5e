// Random rounds of save and mutate by one rank, and what they leave behind.
//
//   rounds --directory DIR --rounds N [--bytes-max N] [--seed N]
//
// Each round registers and removes tensors, changes their bytes, saves, and, as soon as varde_fence has returned,
// changes the bytes again, while the agent still writes.  Some rounds wait for the generation and most do not, so that
// the next save comes in the middle of a drain.  Every generation that becomes complete must hold exactly the bytes of
// its own call; none may be missing.  Packs are read here as any safetensors reader would.
//
// The first and the last round have the same tensors, as many as there ever are: descriptors, locked memory and
// anonymous memory of this process and of its agent's must be the same after both.
// Exit: 0 all of it held; 1 something did not (a line says what); 2 usage.
#include "varde.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fstream>
#include <getopt.h>
#include <malloc.h>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

constexpr size_t tensors_max = 60;
constexpr unsigned unwaited_max = 12;  // VARDE_KEEP must be larger
// The allocator's, not ours: lists that have grown stay a little larger.
constexpr long anonymous_slack_kib = 4096;

[[noreturn]] void stop(const std::string& what) {
    std::printf("rounds: %s\n", what.c_str());
    std::exit(1);
}

void check(int code, const char* call, const varde_run* run) {
    if (code != VARDE_OK) stop(std::string(call) + ": " + varde_error_text(run));
}

using bytes = std::vector<unsigned char>;
using contents = std::map<std::string, bytes>;

struct usage {
    long descriptors = 0, locked_kib = 0, anonymous_kib = 0;
};

long status_kib(const std::string& process, const char* name) {
    std::ifstream file("/proc/" + process + "/status");
    for (std::string line; std::getline(file, line);) {
        if (line.rfind(name, 0) == 0) return std::strtol(line.c_str() + std::strlen(name) + 1, nullptr, 10);
    }
    return 0;
}

std::vector<std::string> names_in(const std::string& path) {
    std::vector<std::string> names;
    DIR* directory = ::opendir(path.c_str());
    if (directory == nullptr) return names;
    while (const dirent* entry = ::readdir(directory))
        if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
    ::closedir(directory);
    return names;
}

// This process, and those whose command line names `mark` (the agent's socket lies below it).
std::vector<std::string> processes(const std::string& mark) {
    std::vector<std::string> found{"self"};
    for (const std::string& name : names_in("/proc")) {
        std::ifstream file("/proc/" + name + "/cmdline");
        std::stringstream text;
        text << file.rdbuf();
        if (text.str().find(mark) != std::string::npos && name != std::to_string(::getpid()) &&
            text.str().find("--socket") != std::string::npos)
            found.push_back(name);
    }
    return found;
}

usage used_now(const std::vector<std::string>& all) {
    usage sum;
    for (const std::string& process : all) {
        sum.descriptors += static_cast<long>(names_in("/proc/" + process + "/fd").size());
        sum.locked_kib += status_kib(process, "VmLck:");
        sum.anonymous_kib += status_kib(process, "RssAnon:");
    }
    return sum;
}

// The least of some moments: the agent opens a file now and then.
usage used_by(const std::vector<std::string>& all) {
    ::malloc_trim(0);  // what this program remembered for its checks
    usage least = used_now(all);
    for (int i = 0; i < 20; i++) {
        ::usleep(50'000);
        const usage now = used_now(all);
        least.descriptors = std::min(least.descriptors, now.descriptors);
        least.locked_kib = std::min(least.locked_kib, now.locked_kib);
        least.anonymous_kib = std::min(least.anonymous_kib, now.anonymous_kib);
    }
    return least;
}

class trainer {
public:
    trainer(std::string directory, uint64_t seed, uint64_t bytes_max)
        : directory_(std::move(directory)), bytes_max_(bytes_max), random_(seed) {}
    void open();
    void play(uint64_t rounds);

private:
    void round(size_t tensors, bool wait);
    void register_to(size_t tensors);
    void change();
    void await();
    void verify(uint64_t step, const contents& wanted) const;
    uint64_t pick(uint64_t least, uint64_t most) {
        return std::uniform_int_distribution<uint64_t>(least, most)(random_);
    }

    std::string directory_;
    uint64_t bytes_max_;
    std::mt19937_64 random_;
    varde_run* run_ = nullptr;
    contents tensors_;
    uint64_t next_name_ = 0;
    uint64_t step_ = 0;
    std::map<uint64_t, contents> unverified_;  // by step
};

void trainer::open() {
    varde_options options = VARDE_OPTIONS_INIT;
    options.directory = directory_.c_str();
    options.name = "rounds";
    options.rank = 0;
    options.world = 1;
    check(varde_open(&options, &run_), "varde_open", nullptr);
    uint64_t step = 0;
    check(varde_restore(run_, &step), "varde_restore", run_);
}

// Random removals, then additions, until there are so many.
void trainer::register_to(size_t count) {
    while (!tensors_.empty() && (tensors_.size() > count || pick(0, 3) == 0)) {
        const auto gone = std::next(tensors_.begin(), static_cast<long>(pick(0, tensors_.size() - 1)));
        check(varde_unregister(run_, gone->first.c_str()), "varde_unregister", run_);
        tensors_.erase(gone);
    }
    while (tensors_.size() < count) {
        const std::string name = "tensor" + std::to_string(next_name_++);
        // Mostly small, some empty, some of many chunks.
        const uint64_t size = pick(0, 9) == 0 ? pick(0, bytes_max_) : pick(0, 3000);
        bytes& data = tensors_[name];
        data.resize(size);
        varde_shard shard{};
        shard.size = sizeof shard;
        shard.name = name.c_str();
        shard.dtype = VARDE_U8;
        shard.dims = 1;
        shard.shape = &size;
        shard.data = data.data();
        check(varde_register(run_, &shard), "varde_register", run_);
    }
}

void trainer::change() {
    for (auto& [name, data] : tensors_) {
        uint64_t state = random_();
        for (size_t i = 0; i < data.size(); i++) {
            if (i % 8 == 0) state = state * 6364136223846793005ULL + 1442695040888963407ULL;
            data[i] = static_cast<unsigned char>(state >> (8 * (i % 8)));
        }
    }
}

// A pack, tensor by tensor, against what was in memory when it was saved.
void trainer::verify(uint64_t step, const contents& wanted) const {
    std::array<char, 64> generation{};
    std::snprintf(generation.data(), generation.size(), "step-%012llu.r1", static_cast<unsigned long long>(step));
    const std::string path = directory_ + "/rounds/" + generation.data() + "/node-00000-of-00001.safetensors";
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    const std::string pack = text.str();
    uint64_t header_bytes = 0;
    if (pack.size() < 8) stop("'" + path + "' is missing or empty");
    std::memcpy(&header_bytes, pack.data(), sizeof header_bytes);
    const auto header = nlohmann::json::parse(pack.substr(8, header_bytes));
    size_t found = 0;
    for (const auto& [key, about] : header.items()) {
        if (key.rfind("rank00000/", 0) != 0) continue;
        found++;
        const auto of = wanted.find(key.substr(10));
        if (of == wanted.end()) stop("step " + std::to_string(step) + " has '" + key + "', which was not registered");
        const uint64_t begin = about.at("data_offsets").at(0);
        const uint64_t end = about.at("data_offsets").at(1);
        const bool same = end - begin == of->second.size() &&
                          std::equal(of->second.begin(), of->second.end(),
                                     reinterpret_cast<const unsigned char*>(pack.data()) + 8 + header_bytes + begin);
        if (!same) stop("step " + std::to_string(step) + ": '" + key + "' has bytes of another moment");
    }
    if (found != wanted.size())
        stop("step " + std::to_string(step) + " has " + std::to_string(found) + " tensors of " +
             std::to_string(wanted.size()));
}

void trainer::await() {
    check(varde_wait(run_, 60'000), "varde_wait", run_);
    for (const auto& [step, wanted] : unverified_) verify(step, wanted);
    unverified_.clear();
}

void trainer::round(size_t tensors, bool wait) {
    register_to(tensors);
    change();
    check(varde_save(run_, ++step_), "varde_save", run_);
    unverified_[step_] = tensors_;
    check(varde_fence(run_), "varde_fence", run_);
    change();
    if (wait || unverified_.size() == unwaited_max) await();
}

void trainer::play(uint64_t rounds) {
    const std::string mark = std::getenv("XDG_RUNTIME_DIR") == nullptr ? "" : std::getenv("XDG_RUNTIME_DIR");
    if (mark.empty()) stop("XDG_RUNTIME_DIR must name a directory of its own: the agent is found by it");
    round(tensors_max, true);
    const auto all = processes(mark);
    if (all.size() != 3) stop("the agent's processes were not found");
    const usage first = used_by(all);
    for (uint64_t i = 2; i < rounds; i++) round(pick(0, tensors_max), pick(0, 9) == 0);
    await();
    round(tensors_max, true);
    const usage last = used_by(all);
    std::printf(
        "rounds: %llu generations verified; descriptors %ld and %ld, locked %ld and %ld KiB, anonymous memory %ld "
        "and %ld KiB after the first and the last\n",
        static_cast<unsigned long long>(step_), first.descriptors, last.descriptors, first.locked_kib, last.locked_kib,
        first.anonymous_kib, last.anonymous_kib);
    if (last.descriptors != first.descriptors) stop("descriptors have leaked");
    if (last.locked_kib != first.locked_kib) stop("locked memory has grown");
    if (last.anonymous_kib > first.anonymous_kib + anonymous_slack_kib) stop("memory has leaked");
    check(varde_close(run_), "varde_close", nullptr);
}

}  // namespace

int main(int argc, char** argv) {
    static constexpr option names[] = {{"directory", 1, nullptr, 'd'},
                                       {"rounds", 1, nullptr, 'r'},
                                       {"bytes-max", 1, nullptr, 'b'},
                                       {"seed", 1, nullptr, 's'},
                                       {nullptr, 0, nullptr, 0}};
    std::string directory;
    uint64_t rounds = 0, bytes_max = 1 << 20, seed = 1;
    for (int which; (which = ::getopt_long(argc, argv, "", names, nullptr)) != -1;) {
        if (which == 'd') directory = optarg;
        else if (which == 'r') rounds = std::strtoull(optarg, nullptr, 10);
        else if (which == 'b') bytes_max = std::strtoull(optarg, nullptr, 10);
        else if (which == 's') seed = std::strtoull(optarg, nullptr, 10);
        else rounds = 0;
    }
    if (directory.empty() || rounds < 3 || optind != argc) {
        std::fprintf(stderr, "usage: rounds --directory DIR --rounds N [--bytes-max N] [--seed N]\n");
        return 2;
    }
    trainer one(directory, seed, bytes_max);
    one.open();
    one.play(rounds);
    return 0;
}
