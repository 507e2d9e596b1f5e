// From events to a story.
#include "cli/story.h"

#include "base/clock.h"
#include "store/store.h"

#include <algorithm>
#include <cstring>

namespace varde::cli {

namespace {

using store::history_event;

// What a damaged file says beyond these would only overflow.
constexpr uint64_t seconds_max = 86'400;
constexpr uint64_t steps_max = 100'000;

uint64_t after(uint64_t later, uint64_t earlier) noexcept { return later > earlier ? later - earlier : 0; }

// What is known of an incarnation's end, and of the start that follows it.
struct turn {
    const history_event* start = nullptr;
    const history_event* noticed = nullptr;  // the first with a cause
    const history_event* requeued = nullptr;
    const history_event* restored = nullptr;
    const history_event* first_step = nullptr;
    bool ended = false;
};

class teller {
public:
    explicit teller(story& into) : told_(into) {}
    void take(const history_event& what);
    void finish();

private:
    void take_generation(const history_event& what, start_story& start);
    void take_turn(const history_event& what, start_story& start);
    void take_remark(const history_event& what);
    void settle(const history_event& what, fate how, std::string why);
    generation_story& generation_of(const history_event& what);
    generation_story* find_generation(const std::string& name);
    void add_restart(uint64_t incarnation, const turn& before, const turn& now);

    story& told_;
    std::map<uint64_t, turn> turns_;
};

// Times and steps only grow: what two leaders' clocks, or a damaged file, have otherwise is left out.  Of a step that
// is told of twice the first time counts: that is when it was reached.
void reach(start_story& start, uint64_t wall_ns, uint64_t step) {
    auto& known = start.progress;
    if (wall_ns == 0 || (!known.empty() && step < known.back().step)) return;
    const uint64_t earliest = known.size() < 2 ? 0 : known[known.size() - 2].wall_ns;
    if (!known.empty() && step == known.back().step) {
        if (wall_ns < known.back().wall_ns && wall_ns >= earliest) known.back().wall_ns = wall_ns;
    } else if (known.empty() || wall_ns >= known.back().wall_ns) {
        known.push_back({wall_ns, step});
    }
}

void set_first(uint64_t& target, uint64_t value) noexcept {
    if (target == 0) target = value;
}

void set_first(const history_event*& target, const history_event& value) noexcept {
    if (target == nullptr) target = &value;
}

generation_story& teller::generation_of(const history_event& what) {
    auto& found = told_.generations[{what.incarnation, what.number("step")}];
    found.step = what.number("step");
    found.incarnation = what.incarnation;
    return found;
}

generation_story* teller::find_generation(const std::string& name) {
    const auto id = store::parse_generation_name(name);
    const auto found = id ? told_.generations.find({id->incarnation, id->step}) : told_.generations.end();
    return found == told_.generations.end() ? nullptr : &found->second;
}

// Once complete it stays so; damage alone is found later.
void teller::settle(const history_event& what, fate how, std::string why) {
    auto& found = generation_of(what);
    if (found.what != fate::open) return;
    found.what = how;
    found.settled_wall_ns = what.wall_ns;
    found.why = std::move(why);
}

void teller::take_generation(const history_event& what, start_story& start) {
    if (what.name == "proposed") {
        set_first(generation_of(what).proposed_wall_ns, what.wall_ns);
        reach(start, what.wall_ns, what.number("at_step"));
        start.step_ns = what.number("step_ns");
    } else if (what.name == "staged") {
        auto& found = generation_of(what);
        set_first(found.staged_wall_ns, what.wall_ns);
        set_first(found.bytes, what.number("bytes"));
        set_first(found.stage_ns, what.number("stage_ns"));
    } else if (what.name == "sealed") {
        auto& found = generation_of(what);
        found.bytes = std::max(found.bytes, what.number("bytes"));
        set_first(found.drain_ns, what.number("drain_ns"));
    } else if (what.name == "complete") {
        set_first(generation_of(what).stall_ns, what.number("stall_ns"));
        settle(what, fate::complete, "");
    } else if (what.name == "late") {
        settle(what, fate::late, "a rank of " + what.host + " was past the step when it became due");
    } else if (what.name == "failed") {
        const auto number = static_cast<int>(std::min<uint64_t>(what.number("errno"), INT16_MAX));
        const char* words = number == 0 ? nullptr : ::strerrordesc_np(number);
        settle(what, fate::failed, "given up on " + what.host + (words == nullptr ? "" : std::string(": ") + words));
    }
}

void teller::take_turn(const history_event& what, start_story& start) {
    turn& of = turns_[what.incarnation];
    if (what.name == "start") {
        set_first(of.start, what);
        set_first(start.began_wall_ns, what.wall_ns);
        set_first(start.nodes, what.number("nodes"));
        set_first(start.ranks, what.number("ranks"));
        start.launch = what.text("launch");
    } else if (what.name == "restored") {
        set_first(of.restored, what);
        set_first(start.nodes, what.number("nodes"));
        start.restored_step = what.number("step");
        reach(start, what.wall_ns, what.number("step"));
    } else if (what.name == "first_step") {
        set_first(of.first_step, what);
        reach(start, what.wall_ns, what.number("step"));
    } else if (what.name == "progress") {
        reach(start, what.wall_ns, what.number("step"));
    } else if (what.name == "requeued") {
        set_first(of.requeued, what);
        start.end = "requeued";
    } else if (what.name == "stopped" && start.end.empty()) {
        start.end = "stopped";
    } else if (what.name == "ended") {
        of.ended = true;
        start.end = "ended";
        reach(start, what.wall_ns, what.number("step"));
    }
    if (what.text("cause").empty()) return;
    set_first(of.noticed, what);
    reach(start, what.number("last_step_wall_ns"), what.number("step"));
}

void teller::take_remark(const history_event& what) {
    const auto add = [&](const std::string& text) { told_.remarks.push_back({what.wall_ns, text}); };
    if (what.name == "damaged") {
        add("generation " + what.text("generation") + " is damaged: " + what.text("reason"));
        if (auto* one = find_generation(what.text("generation"))) {
            one->what = fate::damaged;
            one->why = what.text("reason");
        }
    } else if (what.name == "refused") {
        add("the start was refused: " + what.text("reason"));
    } else if (what.name == "not_requeued") {
        add("not requeued: " + what.text("reason"));
    } else if (!what.text("not_requeued").empty()) {
        add("not requeued: " + what.text("not_requeued"));
    } else if (what.name == "stretched") {
        add("storage was too slow for the interval: a generation waited for the one before it");
    } else if (what.name == "interval") {
        add("the interval is " + span_text(std::min(what.number("interval_s"), seconds_max) * ns_per_s));
    } else if (what.name == "retired") {
        if (auto* one = find_generation(what.text("generation"))) one->retired = true;
    }
}

void teller::take(const history_event& what) {
    auto& start = told_.starts[what.incarnation];
    set_first(start.began_wall_ns, what.wall_ns);
    set_first(start.job, what.job);
    set_first(start.requeues, what.restart);
    start.last_wall_ns = std::max(start.last_wall_ns, what.wall_ns);
    set_first(told_.first_wall_ns, what.wall_ns);
    told_.first_wall_ns = std::min(told_.first_wall_ns, what.wall_ns);
    told_.last_wall_ns = std::max(told_.last_wall_ns, what.wall_ns);
    take_generation(what, start);
    take_turn(what, start);
    take_remark(what);
}

std::string describe(const start_story& before, const start_story& now, const turn& end) {
    if (end.noticed != nullptr) {
        const auto& word = end.noticed->text("cause");
        const std::pair<const char*, const char*> titles[] = {{store::cause::node, "node died"},
                                                              {store::cause::hang, "training hung"},
                                                              {store::cause::application, "application failed"}};
        std::string text = word;
        for (const auto& [cause, title] : titles) {
            if (word == cause) text = title;
        }
        for (const char* key : {"hosts", "how", "what", "reason"}) {
            if (const auto& detail = end.noticed->text(key); !detail.empty()) return text + ": " + detail;
        }
        return text;
    }
    if (end.requeued != nullptr) return end.requeued->text("reason");
    if (end.ended) return "the run went on after its end";
    if (now.job != before.job) return "started again as job " + std::to_string(now.job);
    return now.requeues > before.requeues ? "requeued by Slurm or by hand" : "started again in the same job";
}

// When the step was reached, between the moments that are told.
uint64_t time_of(const start_story& start, uint64_t step) {
    for (size_t index = 1; index < start.progress.size(); index++) {
        const auto& from = start.progress[index - 1];
        const auto& to = start.progress[index];
        if (step < from.step || step > to.step || to.step == from.step) continue;
        const double part = static_cast<double>(step - from.step) / static_cast<double>(to.step - from.step);
        return from.wall_ns + static_cast<uint64_t>(part * static_cast<double>(to.wall_ns - from.wall_ns));
    }
    return 0;
}

// Of the whole incarnation, once it has more than a moment.
uint64_t pace_of(const start_story& start) {
    if (start.progress.size() < 2) return start.step_ns;
    const auto& first = start.progress[start.progress.size() > 2 ? 1 : 0];  // the first step takes longer
    const auto& last = start.progress.back();
    return last.step > first.step ? (last.wall_ns - first.wall_ns) / (last.step - first.step) : start.step_ns;
}

void teller::add_restart(uint64_t incarnation, const turn& before, const turn& now) {
    auto& next = told_.starts[incarnation];
    auto& last = std::prev(told_.starts.find(incarnation))->second;
    if (now.start != nullptr) reach(last, now.start->number("last_step_wall_ns"), now.start->number("last_step"));
    restart_story one;
    one.incarnation = incarnation;
    one.cause = before.noticed == nullptr ? "" : before.noticed->text("cause");
    one.what = describe(last, next, before);
    one.planned = before.ended;
    one.last_step = last.last_step();
    one.restored_step = next.restored_step;
    one.stopped_wall_ns = last.progress.empty() ? last.last_wall_ns : last.progress.back().wall_ns;
    if (now.restored != nullptr) {
        one.cost_ns[rollback] =
            std::min(one.steps_repeated(), steps_max) * std::min(last.step_ns, seconds_max * ns_per_s);
        one.repeated_wall_ns = time_of(last, one.restored_step);
    }
    const auto at = [](const history_event* event) { return event == nullptr ? 0 : event->wall_ns; };
    one.ends_ns[detect] = at(before.noticed);
    one.ends_ns[requeue] = at(before.requeued);
    if (now.start != nullptr) {
        const uint64_t agent = now.start->number("agent_wall_ns");
        one.ends_ns[schedule] = agent > one.stopped_wall_ns ? agent : now.start->number("hello_wall_ns");
    }
    one.ends_ns[launch] = at(now.start);
    one.ends_ns[load] = at(now.restored);
    one.ends_ns[first_step] = at(now.first_step);
    uint64_t so_far = one.stopped_wall_ns;
    for (size_t which = detect; which < part_count; which++) {
        one.ends_ns[which] = std::max(std::min(one.ends_ns[which], told_.last_wall_ns), so_far);
        one.cost_ns[which] = after(one.ends_ns[which], so_far);
        so_far = one.ends_ns[which];
    }
    told_.restarts.push_back(std::move(one));
}

void teller::finish() {
    for (auto& [number, start] : told_.starts) {
        start.step_ns = pace_of(start);
        if (number != told_.starts.begin()->first)
            add_restart(number, turns_[std::prev(told_.starts.find(number))->first], turns_[number]);
    }
    for (const auto& [number, start] : told_.starts) told_.last_step = std::max(told_.last_step, start.last_step());
}

}  // namespace

uint64_t restart_story::total_ns() const noexcept {
    uint64_t sum = 0;
    for (const uint64_t one : cost_ns) sum += one;
    return sum;
}

uint64_t story::count(fate what) const noexcept {
    return static_cast<uint64_t>(std::count_if(generations.begin(), generations.end(),
                                               [&](const auto& one) { return one.second.what == what; }));
}

uint64_t story::stall_ns() const noexcept {
    uint64_t sum = 0;
    for (const auto& [id, one] : generations) sum += one.stall_ns;
    return sum;
}

uint64_t story::lost_ns() const noexcept {
    uint64_t sum = 0;
    for (const auto& one : restarts) sum += one.planned ? 0 : one.total_ns();
    return sum;
}

const generation_story* story::newest_complete() const noexcept {
    for (auto at = generations.rbegin(); at != generations.rend(); ++at) {
        if (at->second.what == fate::complete) return &at->second;
    }
    return nullptr;
}

bool story::over() const noexcept { return !starts.empty() && starts.rbegin()->second.end == "ended"; }

story tell(const store::history& from) {
    story told;
    told.unreadable_count = from.unreadable_count;
    told.skipped_bytes = from.skipped_bytes;
    teller speaker(told);
    for (const auto& event : from.events) speaker.take(event);
    speaker.finish();
    return told;
}

}  // namespace varde::cli
