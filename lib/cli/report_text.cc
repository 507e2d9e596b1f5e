// The report as text and as JSON.
#include "cli/report.h"

#include "base/units.h"
#include "cli/ls.h"
#include "cli/table.h"
#include "pack/text.h"

#include <algorithm>
#include <fmt/format.h>

namespace varde::cli {

namespace {

constexpr size_t rows_max = 20;  // of generations and remarks, unless all are asked for

std::string restart_table(const story& told) {
    std::vector<column> columns{{"START", align::right}, {"STOPPED AT"}, {"LOST", align::right}};
    for (const char* name : part_names) {
        std::string title = name;
        for (char& letter : title) letter = letter == ' ' ? letter : static_cast<char>(letter - 'a' + 'A');
        columns.push_back({title, align::right});
    }
    columns.push_back({"STEPS AGAIN", align::right});
    columns.push_back({"WHY"});
    table rows(columns);
    for (const auto& one : told.restarts) {
        std::vector<std::string> cells{std::to_string(one.incarnation), clock_text(one.stopped_wall_ns),
                                       one.planned ? "-" : span_text(one.total_ns())};
        for (const uint64_t cost : one.cost_ns) cells.push_back(span_text(cost));
        cells.push_back(std::to_string(one.steps_repeated()));
        cells.push_back(shown(one.what));
        rows.add(std::move(cells));
    }
    return rows.text(2);
}

std::string start_table(const story& told) {
    table rows({{"START", align::right},
                {"BEGAN"},
                {"JOB", align::right},
                {"REQUEUES", align::right},
                {"NODES", align::right},
                {"RANKS", align::right},
                {"FROM STEP", align::right},
                {"TO STEP", align::right},
                {"STEP TAKES", align::right},
                {"END"}});
    for (const auto& [number, one] : told.starts) {
        rows.add({std::to_string(number), clock_text(one.began_wall_ns), std::to_string(one.job),
                  std::to_string(one.requeues), std::to_string(one.nodes), std::to_string(one.ranks),
                  std::to_string(one.restored_step), std::to_string(one.last_step()), span_text(one.step_ns),
                  one.end.empty() ? "not told" : one.end});
    }
    return rows.text(2);
}

std::string generation_table(const story& told, size_t most) {
    table rows({{"STEP", align::right},
                {"START", align::right},
                {"SETTLED AT"},
                {"SIZE", align::right},
                {"STAGED IN", align::right},
                {"WRITTEN IN", align::right},
                {"STALL", align::right},
                {"STATE"}});
    size_t left = told.generations.size();
    for (const auto& [id, one] : told.generations) {
        if (left-- > most) continue;
        const std::string state = std::string(fate_name(one.what)) + (one.retired ? ", deleted since" : "");
        rows.add({std::to_string(one.step), std::to_string(one.incarnation),
                  one.settled_wall_ns == 0 ? "-" : clock_text(one.settled_wall_ns), format_bytes(one.bytes),
                  span_text(one.stage_ns), span_text(one.drain_ns), span_text(one.stall_ns),
                  one.why.empty() ? state : state + ": " + shown(one.why)});
    }
    return rows.text(2);
}

std::string heading(const char* title, size_t count, size_t most) {
    return fmt::format("\n{}{}\n", title,
                       count > most ? fmt::format(" (the newest {} of {}; --all shows them)", most, count) : "");
}

nlohmann::ordered_json restart_json(const restart_story& one) {
    nlohmann::ordered_json text{{"incarnation", one.incarnation},
                                {"cause", one.cause},
                                {"what", one.what},
                                {"planned", one.planned},
                                {"stopped_wall_ns", one.stopped_wall_ns},
                                {"last_step", one.last_step},
                                {"restored_step", one.restored_step},
                                {"steps_repeated", one.steps_repeated()},
                                {"total_ns", one.total_ns()}};
    for (size_t which = 0; which < part_count; which++) {
        std::string key = part_names[which];
        std::replace(key.begin(), key.end(), ' ', '_');
        text[key + "_ns"] = one.cost_ns[which];
    }
    return text;
}

}  // namespace

std::string state_line(const story& told, uint64_t now_ns) {
    if (told.starts.empty()) return "nothing has been told of it";
    const auto& last = told.starts.rbegin()->second;
    const std::string ago = age_text(told.last_wall_ns, now_ns);
    const std::string since = ago == "now" ? "" : ", last told of " + ago + " ago";
    if (last.end == "ended") return "came to its end at step " + std::to_string(last.last_step());
    if (last.end == "requeued")
        return "requeued after step " + std::to_string(last.last_step()) + ", not started again yet" + since;
    if (last.end == "stopped") return "stopped at step " + std::to_string(last.last_step()) + since;
    return "at step " + std::to_string(last.last_step()) + " or beyond" + since;
}

std::vector<std::pair<std::string, std::string>> key_figures(const story& told, uint64_t now_ns) {
    std::vector<std::pair<std::string, std::string>> figures;
    const uint64_t span_ns = told.last_wall_ns - told.first_wall_ns;
    const auto percent = [&](uint64_t part_ns) {
        return span_ns == 0
                   ? std::string()
                   : fmt::format(" ({:.2f} %)", 100 * static_cast<double>(part_ns) / static_cast<double>(span_ns));
    };
    figures.emplace_back("wall time", span_text(span_ns));
    figures.emplace_back("step", std::to_string(told.last_step));
    if (const auto* newest = told.newest_complete())
        figures.emplace_back("newest complete",
                             fmt::format("step {}, {} old", newest->step, age_text(newest->settled_wall_ns, now_ns)));
    else figures.emplace_back("newest complete", "none");
    const auto planned =
        std::count_if(told.restarts.begin(), told.restarts.end(), [](const auto& one) { return one.planned; });
    figures.emplace_back("restarts", std::to_string(told.restarts.size() - static_cast<size_t>(planned)));
    figures.emplace_back("lost to restarts", span_text(told.lost_ns()) + percent(told.lost_ns()));
    figures.emplace_back("stalled by checkpoints", span_text(told.stall_ns()) + percent(told.stall_ns()));
    std::string generations = std::to_string(told.count(fate::complete)) + " complete";
    for (const fate what : {fate::late, fate::failed, fate::damaged}) {
        if (const uint64_t count = told.count(what); count > 0)
            generations += fmt::format(", {} {}", count, fate_name(what));
    }
    figures.emplace_back("generations", generations);
    return figures;
}

std::string report_text(const story& told, const std::string& path, uint64_t now_ns, bool all) {
    const size_t most = all ? SIZE_MAX : rows_max;
    std::string text = pack::escaped(path, 4096) + "\n  " + state_line(told, now_ns) + "\n\n";
    for (const auto& [name, value] : key_figures(told, now_ns)) text += fmt::format("  {:<23} {}\n", name, value);
    if (!told.restarts.empty()) text += heading("Restarts", 0, most) + restart_table(told);
    if (!told.starts.empty()) text += heading("Starts", 0, most) + start_table(told);
    if (!told.generations.empty())
        text += heading("Generations", told.generations.size(), most) + generation_table(told, most);
    if (!told.remarks.empty()) text += heading("Remarks", told.remarks.size(), most);
    for (size_t index = told.remarks.size() - std::min(most, told.remarks.size()); index < told.remarks.size(); index++)
        text += fmt::format("  {}  {}\n", clock_text(told.remarks[index].wall_ns), shown(told.remarks[index].text));
    if (told.unreadable_count > 0)
        text += fmt::format("\n{} lines of history.jsonl are no events and are left out\n", told.unreadable_count);
    if (told.skipped_bytes > 0)
        text += fmt::format("\nthe first {} of history.jsonl are left out\n", format_bytes(told.skipped_bytes));
    return text;
}

nlohmann::ordered_json report_json(const story& told, const std::string& path) {
    nlohmann::ordered_json whole{{"run", path},
                                 {"first_wall_ns", told.first_wall_ns},
                                 {"last_wall_ns", told.last_wall_ns},
                                 {"last_step", told.last_step},
                                 {"over", told.over()},
                                 {"lost_ns", told.lost_ns()},
                                 {"stall_ns", told.stall_ns()},
                                 {"unreadable_lines", told.unreadable_count},
                                 {"starts", nlohmann::ordered_json::array()},
                                 {"restarts", nlohmann::ordered_json::array()},
                                 {"generations", nlohmann::ordered_json::array()}};
    for (const auto& [number, one] : told.starts) {
        whole["starts"].push_back({{"incarnation", number},
                                   {"job", one.job},
                                   {"requeues", one.requeues},
                                   {"nodes", one.nodes},
                                   {"ranks", one.ranks},
                                   {"began_wall_ns", one.began_wall_ns},
                                   {"restored_step", one.restored_step},
                                   {"last_step", one.last_step()},
                                   {"step_ns", one.step_ns},
                                   {"end", one.end}});
    }
    for (const auto& one : told.restarts) whole["restarts"].push_back(restart_json(one));
    for (const auto& [id, one] : told.generations) {
        whole["generations"].push_back({{"step", one.step},
                                        {"incarnation", one.incarnation},
                                        {"status", fate_name(one.what)},
                                        {"retired", one.retired},
                                        {"settled_wall_ns", one.settled_wall_ns},
                                        {"bytes", one.bytes},
                                        {"stage_ns", one.stage_ns},
                                        {"drain_ns", one.drain_ns},
                                        {"stall_ns", one.stall_ns},
                                        {"why", one.why}});
    }
    return whole;
}

}  // namespace varde::cli
