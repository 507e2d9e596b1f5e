// simulate [--seeds FIRST-LAST] [--mistake NAME] [--reference COUNT]: plays seeds; 1 where a promise was broken.
#include "base/units.h"
#include "simulation.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>

using namespace varde;
using namespace varde::simulate;

namespace {

struct request {
    uint64_t first = 1;
    uint64_t last = 200;
    uint64_t reference_count = 0;
    mistake made = mistake::none;
};

struct summary {
    simulation::counts all;
    uint64_t seeds = 0;
    uint64_t simulated_ns = 0;
    std::string story;  // of the lowest seed that broke a promise
    uint64_t broken_seed = UINT64_MAX;
};

void play(const request& what, uint64_t seed, summary& of, std::mutex& lock) {
    plan drawn = draw_plan(seed);
    drawn.made = what.made;
    simulation one(drawn);
    one.run();
    const std::lock_guard guard(lock);
    of.seeds++;
    of.simulated_ns += drawn.length_ns / ns_per_s;
    of.all.failures += one.counted().failures;
    of.all.requeues += one.counted().requeues;
    of.all.generations += one.counted().generations;
    of.all.given_up += one.counted().given_up;
    if (!one.broken() || seed >= of.broken_seed) return;
    of.broken_seed = seed;
    of.story = one.story();
}

// On all cores; the lowest seed that breaks a promise is told, however the threads ran.
summary play_all(const request& what) {
    summary of;
    std::mutex lock;
    std::atomic<uint64_t> next = what.first;
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); i++) {
        threads.emplace_back([&] {
            for (;;) {
                const uint64_t seed = next++;
                {
                    const std::lock_guard guard(lock);
                    if (seed > what.last || seed > of.broken_seed) return;
                }
                play(what, seed, of, lock);
            }
        });
    }
    for (auto& one : threads) one.join();
    return of;
}

// ---- The reference case

double minutes(uint64_t ns) { return static_cast<double>(ns) / 60e9; }

void print_row(const char* name, std::vector<uint64_t> values) {
    std::sort(values.begin(), values.end());
    uint64_t sum_ns = 0;
    for (const uint64_t value : values) sum_ns += value;
    const auto quantile = [&values](double share) {
        return minutes(values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))]);
    };
    std::printf("  %-22s %8.2f %8.2f %8.2f %8.2f %8.2f\n", name, minutes(sum_ns) / static_cast<double>(values.size()),
                quantile(0.1), quantile(0.5), quantile(0.9), quantile(1));
}

// Mean of what both failures cost together, in minutes; 0 where a promise was broken.
double print_reference(uint64_t count, bool detection) {
    std::vector<uint64_t> together;
    std::vector<uint64_t> parts[5];
    for (uint64_t seed = 1; seed <= count; seed++) {
        simulation one(reference_plan(seed, detection));
        one.run();
        if (one.broken()) {
            std::printf("%s", one.story().c_str());
            return 0;
        }
        uint64_t sum_ns = 0;
        for (const auto& cost : one.losses()) {
            sum_ns += cost.sum_ns();
            const uint64_t values[] = {cost.rollback_ns, cost.detect_ns, cost.requeue_ns, cost.schedule_ns,
                                       cost.load_ns};
            for (size_t i = 0; i < 5; i++) parts[i].push_back(values[i]);
        }
        together.push_back(sum_ns);
    }
    std::printf("\n%s, %lu seeds, minutes:       mean      10%%   median      90%%     most\n",
                detection ? "with Varde's detection" : "with Slurm's alone    ", count);
    const char* names[] = {"rollback", "detect", "requeue", "schedule", "load, first step"};
    for (size_t i = 0; i < 5; i++) print_row(names[i], parts[i]);
    print_row("both failures together", together);
    uint64_t sum_ns = 0;
    for (const uint64_t value : together) sum_ns += value;
    return minutes(sum_ns) / static_cast<double>(count);
}

bool reference(uint64_t count) {
    std::printf(
        "reference: 192 nodes, a checkpoint every 20 minutes, two nodes die at any time in two hours;\n"
        "SlurmdTimeout=300, KillWait=30, a requeued job waits 120 s; steps of 2.5 s, 40 s to write a "
        "checkpoint,\n30 s to launch, 20 s to load\n");
    const double with = print_reference(count, true);
    const double without = print_reference(count, false);
    if (with == 0 || without == 0) return false;
    std::printf("\ntwo failures cost %.1f minutes with detection, %.1f without\n", with, without);
    return with < 30;
}

bool read_arguments(int count, char** words, request& ret) {
    for (int i = 1; i + 1 < count; i += 2) {
        const std::string_view value = words[i + 1];
        if (std::strcmp(words[i], "--seeds") == 0) {
            const size_t dash = value.find('-');
            const auto first = parse_number(value.substr(0, dash));
            const auto last = dash == std::string_view::npos ? first : parse_number(value.substr(dash + 1));
            if (!first || !last) return false;
            ret.first = *first;
            ret.last = *last;
        } else if (std::strcmp(words[i], "--mistake") == 0) {
            ret.made = mistake_of(value);
            if (ret.made == mistake::none) return false;
        } else if (std::strcmp(words[i], "--reference") == 0) {
            const auto seeds = parse_number(value);
            if (!seeds) return false;
            ret.reference_count = *seeds;
        } else {
            return false;
        }
    }
    return count % 2 == 1;
}

}  // namespace

int main(int count, char** words) {
    request what;
    if (!read_arguments(count, words, what)) {
        std::fprintf(stderr, "usage: simulate [--seeds FIRST-LAST] [--mistake NAME] [--reference SEEDS]\n");
        return 2;
    }
    const summary of = play_all(what);
    std::printf("%lu seeds, %.1f years: %lu generations, %lu failures, %lu requeues, %lu ends without one\n", of.seeds,
                static_cast<double>(of.simulated_ns) / (365.25 * 86400), of.all.generations, of.all.failures,
                of.all.requeues, of.all.given_up);
    if (of.broken_seed != UINT64_MAX) {
        std::printf("%s", of.story.c_str());
        return 1;
    }
    std::printf("no promise was broken\n");
    return what.reference_count == 0 || reference(what.reference_count) ? 0 : 1;
}
