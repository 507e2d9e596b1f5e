// How long a restart needs to choose, and a leader to look at all nodes, at the design point of 2,048 nodes.
#include "figure.h"

#include "base/clock.h"
#include "store/store.h"

#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace varde::bench {

namespace {

constexpr uint32_t node_count = 2048;
constexpr uint64_t generation_count = 50;

result<void> write_generation(store::run_directory& run, store::generation_id id) {
    store::manifest record{
        .run = "run", .id = id, .world = node_count * 8, .packs = {}, .wall_ns = wall_ns(), .library = "bench"};
    const std::string directory = run.path() + "/" + store::generation_name(id);
    std::filesystem::create_directory(directory);
    for (uint32_t node = 0; node < node_count; ++node) {
        const std::string path = directory + "/" + store::pack_name(node, node_count);
        const unique_fd fd(::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        if (!fd || ::ftruncate(fd.get(), 4096) != 0) return os_error(errno, "couldn't create '" + path + "'");
        record.packs.push_back({node, 4096, node, "node" + std::to_string(node)});
    }
    return run.commit(record);
}

std::vector<double> seconds_each(const settings& with, const std::function<void()>& work) {
    std::vector<double> times;
    for (unsigned i = 0; i < with.pairs; ++i) times.push_back(seconds_of(work));
    return times;
}

result<figure> choose_time(const settings& with) {
    result<store::run_directory> run = store::run_directory::open(with.directory + "/choose", "run", true);
    if (!run) return run.error();
    for (uint64_t step = 1; step <= generation_count; ++step) {
        progress("choice_s: generation " + std::to_string(step) + " of " + std::to_string(generation_count));
        if (const result<void> written = write_generation(*run, {step, 1}); !written) return written.error();
    }
    // The newest is incomplete and the one before is damaged: a restart after a bad day.
    const std::string newest = run->path() + "/" + store::generation_name({generation_count, 1});
    std::filesystem::remove(newest + "/manifest.json");
    std::filesystem::remove(newest + "/" + store::pack_name(7, node_count));
    if (const result<void> marked = run->mark_damaged({generation_count - 1, 1}, "bench"); !marked)
        return marked.error();
    uint64_t chosen = 0;
    const auto choose = [&]() {
        const result<store::generation> got = run->choose(nullptr);
        chosen = got ? got->id.step : 0;
    };
    figure taken = median_of("choice_s", "s", seconds_each(with, choose), goal_kind::at_most, 1,
                             "50 generations of 2,048 packs, warm caches");
    if (chosen != generation_count - 2) return fail(code::internal, "step " + std::to_string(chosen) + " was chosen");
    std::filesystem::remove_all(with.directory + "/choose");
    return taken;
}

result<figure> roster_time(const settings& with) {
    result<store::run_directory> run = store::run_directory::open(with.directory + "/roster", "run", true);
    if (!run) return run.error();
    result<store::roster> nodes = run->open_roster(true);
    if (!nodes) return nodes.error();
    for (uint32_t node = 0; node < node_count; ++node) {
        store::slot mine;
        mine.node_index = node;
        mine.node_count = node_count;
        if (const result<void> written = nodes->write(mine); !written) return written.error();
    }
    size_t bad = 0;
    const auto read = [&]() {
        for (const result<store::slot>& one : nodes->read_all(node_count)) bad += !one;
    };
    std::vector<double> times = seconds_each(with, read);
    for (double& each : times) each *= 1000;
    figure taken = median_of("roster_ms", "ms", std::move(times), goal_kind::at_most, 1000,
                             "2,048 slots, as the leader reads them once a second");
    if (bad != 0) return fail(code::internal, std::to_string(bad) + " slots could not be read");
    return taken;
}

}  // namespace

result<figures> store_figures(const settings& with) {
    result<figure> choice = choose_time(with);
    if (!choice) return choice.error();
    result<figure> roster = roster_time(with);
    if (!roster) return roster.error();
    return figures{std::move(*choice), std::move(*roster)};
}

}  // namespace varde::bench
