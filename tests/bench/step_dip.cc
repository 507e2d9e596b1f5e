// Whether training is slower while the agent writes: a compute loop with a core of its own, the agent and the copy
// threads on another.
//
// The loop stays within its core's registers: what it can lose is the core's time (interrupts, other threads), not its
// share of the memory bandwidth, which is the figure staging_vs_copy.
#include "plot.h"
#include "trainer.h"

#include "base/clock.h"

#include <algorithm>
#include <sched.h>

namespace varde::bench {

namespace {

constexpr double quiet_s = 0.8;
constexpr double step_s = 0.004;
constexpr double fence_s = 0.4;  // after the save: a training step, longer than the copy
constexpr double around_s = 1;   // of the plot, before the save and after the end

struct cores {
    int training = 0;
    int agent = 0;
};

result<cores> choose_cores() {
    cpu_set_t allowed;
    if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2)
        return fail(code::unavailable, "a core for the loop and one for the agent are needed");
    std::vector<int> numbers;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(static_cast<size_t>(cpu), &allowed)) numbers.push_back(cpu);
    }
    return cores{numbers.front(), numbers.back()};
}

uint64_t compute(uint64_t count) {
    uint64_t state = 88172645463325252ULL;
    for (uint64_t i = 0; i < count; ++i) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    return state;
}

class loop {
public:
    loop() {
        constexpr uint64_t probe = 1'000'000;
        double fastest_s = 1;
        for (int i = 0; i < 20; ++i) fastest_s = std::min(fastest_s, seconds_of([&] { sink_ = compute(probe); }));
        count_ = static_cast<uint64_t>(probe * step_s / fastest_s);
    }
    void step() { sink_ = compute(count_); }

private:
    uint64_t count_ = 0;
    volatile uint64_t sink_ = 0;
};

result<bool> is_durable(trainer& job) {
    const result<void> durable = job.wait(0);
    if (!durable && durable.error().what != code::timeout) return durable.error();
    return durable.has_value();
}

result<double> quiet_step(loop& training) {
    std::vector<double> steps;
    const uint64_t start = mono_ns();
    while (seconds_since(start) < quiet_s) steps.push_back(seconds_of([&] { training.step(); }));
    return seconds_since(start) / static_cast<double>(steps.size());
}

// Seconds of a step, on average, from the fence until the checkpoint is durable.
result<double> draining_step(trainer& job, loop& training, uint64_t step) {
    if (const result<void> saved = job.save(step); !saved) return saved.error();
    if (const result<void> fenced = job.fence(); !fenced) return fenced.error();
    const uint64_t start = mono_ns();
    for (unsigned count = 1;; ++count) {
        training.step();
        const result<bool> durable = is_durable(job);
        if (!durable) return durable.error();
        if (*durable) return seconds_since(start) / count;
    }
}

// Each step from before a save until after its end; the save and the fence belong to the steps in which they are.
result<void> plot_steps(const settings& with, trainer& job, loop& training, uint64_t step) {
    plot picture;
    picture.title = "Step time around a checkpoint";
    picture.subtitle = "a compute loop on one core; agent and copy threads on another";
    picture.x = {.label = "seconds since varde_save"};
    picture.y = {.label = "milliseconds of one step"};
    picture.lines = {{"step", {}, true}};
    bool saved = false, fenced = false;
    double durable_s = 0;
    const uint64_t save_ns = mono_ns() + static_cast<uint64_t>(around_s * ns_per_s);
    const auto now_s = [&] { return (static_cast<double>(mono_ns()) - static_cast<double>(save_ns)) / ns_per_s; };
    while (durable_s == 0 || now_s() < durable_s + around_s) {
        const double begin_s = now_s();
        training.step();
        if (!saved && begin_s >= 0) {
            if (const result<void> done = job.save(step); !done) return done;
            saved = true;
        }
        if (!fenced && begin_s >= fence_s) {
            if (const result<void> done = job.fence(); !done) return done;
            fenced = true;
        }
        picture.lines[0].points.emplace_back(begin_s, (now_s() - begin_s) * 1000);
        if (!fenced || durable_s != 0) continue;
        const result<bool> durable = is_durable(job);
        if (!durable) return durable.error();
        if (*durable) durable_s = now_s();
    }
    picture.spans = {{"save until fence", 0, fence_s}, {"the agent writes on", fence_s, durable_s}};
    return write_plot(picture, with.plot_directory + "/step_time.svg");
}

}  // namespace

result<figures> step_figures(const settings& with) {
    const result<cores> use = choose_cores();
    if (!use) return use.error();
    result<std::unique_ptr<trainer>> job =
        trainer::start(with, {.name = "step", .size_bytes = with.size_bytes, .cpu = use->agent});
    if (!job) return job.error();
    std::vector<std::vector<double>> seconds;
    const result<void> done = on_cpu(use->training, [&]() -> result<void> {
        if (const result<uint64_t> fresh = (*job)->restore(); !fresh) return fresh.error();
        loop training;
        uint64_t step = 0;
        auto turns =
            take_turns(with, "step_dip_percent",
                       {[&] { return draining_step(**job, training, ++step); }, [&] { return quiet_step(training); }});
        if (!turns) return turns.error();
        seconds = std::move(*turns);
        return plot_steps(with, **job, training, ++step);
    });
    if (!done) return done.error();
    if (const result<void> closed = (*job)->close(); !closed) return closed.error();
    std::vector<double> percent;
    for (const double ratio : speed_ratios(seconds, 1, 0)) percent.push_back((ratio - 1) * 100);
    return figures{median_of("step_dip_percent", "%", percent, goal_kind::at_most, 1,
                             "mean step of a compute loop on CPU " + std::to_string(use->training) +
                                 " while the agent writes from CPU " + std::to_string(use->agent))};
}

}  // namespace varde::bench
