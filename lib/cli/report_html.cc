// The report as one page.  Everything that comes from the history goes through text_of(); the page runs no script, and
// says so to the browser.
#include "cli/report.h"
#include "cli/svg.h"
#include "cli/table.h"
#include "cli/timeline.h"

#include "base/units.h"
#include "pack/text.h"

#include <algorithm>
#include <fmt/format.h>

namespace varde::cli {

namespace {

constexpr size_t rows_max = 200;  // of a table

constexpr const char* style_sheet = R"(
:root { color-scheme: light dark; --ground: #ffffff; --card: #f4f6f8; --ink: #17202a; --quiet: #5b6875; --grid: #dfe4e9;
  --progress: #1f5fbf; --good: #1f8a4c; --bad: #c0262d; --warn: #b26a00; --stall: #7a4fc0;
  --rollback: #d9483b; --detect: #e58a1f; --requeue: #cdb022; --schedule: #7d8fa3; --launch: #3f9c9c; --load: #3b7fd0;
  --first-step: #8a6bd1; }
@media (prefers-color-scheme: dark) { :root { --ground: #12171d; --card: #1b222a; --ink: #e4e9ee; --quiet: #97a4b1;
  --grid: #2b343e; --progress: #6ea8ff; --good: #51c581; --bad: #ff6b6b; --warn: #e9a13b; --stall: #ad8bf0;
  --rollback: #e8695d; --detect: #f0a349; --requeue: #dcc648; --schedule: #8d9fb3; --launch: #58b8b8; --load: #65a3ee;
  --first-step: #a98df0; } }
body { margin: 0 auto; padding: 24px; max-width: 1120px; background: var(--ground); color: var(--ink);
  font: 15px/1.45 system-ui, "DejaVu Sans", sans-serif; }
h1 { font-size: 22px; margin: 0; overflow-wrap: anywhere; } h2 { font-size: 17px; margin: 32px 0 8px; }
p { margin: 4px 0; } .quiet { color: var(--quiet); } .bad { color: var(--bad); }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(240px, 1fr)); gap: 10px; margin: 18px 0; }
dl div { background: var(--card); border-radius: 8px; padding: 10px 14px; }
dt { color: var(--quiet); font-size: 13px; } dd { margin: 0; font-size: 17px; font-variant-numeric: tabular-nums; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--ink); font-size: 12px; }
svg .tick { fill: var(--quiet); } svg .end { text-anchor: end; } svg .middle { text-anchor: middle; }
.grid { stroke: var(--grid); stroke-width: 1; } .axis { stroke: var(--quiet); stroke-width: 1; }
.progress { fill: none; stroke: var(--progress); stroke-width: 2.5; stroke-linejoin: round; }
.band { opacity: .45; } .failure { stroke: var(--bad); stroke-width: 1; stroke-dasharray: 3 3; }
.marker { fill: var(--bad); } .planned { fill: var(--quiet); }
svg .number { fill: #ffffff; font-size: 11px; font-weight: 600; text-anchor: middle; }
.generation { fill: var(--good); stroke: var(--ground); stroke-width: 1; } .generation.late { fill: var(--warn); }
.generation.failed, .generation.damaged { fill: var(--bad); } .generation.unfinished { fill: var(--quiet); }
.stall { fill: var(--stall); } .writing { fill: var(--good); opacity: .75; } .writing.late { fill: var(--warn); }
.writing.failed, .writing.damaged { fill: var(--bad); } .writing.unfinished { fill: var(--quiet); }
.part-rollback { fill: var(--rollback); } .part-detect { fill: var(--detect); } .part-requeue { fill: var(--requeue); }
.part-schedule { fill: var(--schedule); } .part-launch { fill: var(--launch); } .part-load { fill: var(--load); }
.part-first-step { fill: var(--first-step); }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 8px 0; color: var(--quiet); font-size: 13px; }
.legend svg { width: 12px; height: 12px; display: inline-block; vertical-align: -1px; margin-right: 6px; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th { text-align: left; color: var(--quiet); font-weight: 500; } th, td { padding: 4px 10px 4px 0; vertical-align: top;
  border-bottom: 1px solid var(--grid); white-space: nowrap; }
td.words { white-space: normal; overflow-wrap: anywhere; }
td.right, th.right { text-align: right; font-variant-numeric: tabular-nums; }
)";

std::string text_of(const std::string& text) { return svg_escaped(shown(text)); }

// A table, cell by cell: text is escaped here and nowhere else.
class html_table {
public:
    explicit html_table(const std::vector<column>& titles) {
        for (const auto& [title, side] : titles)
            text_ += (side == align::right ? "<th class=\"right\">" : "<th>") + text_of(title) + "</th>";
        text_ += "</tr></thead><tbody>\n";
    }
    void row() { text_ += open_ ? "</tr>\n<tr>" : "<tr>", open_ = true; }
    void number(const std::string& text) { text_ += "<td class=\"right\">" + text_of(text) + "</td>"; }
    void number(uint64_t value) { number(std::to_string(value)); }
    void words(const std::string& text) { text_ += "<td class=\"words\">" + text_of(text) + "</td>"; }
    void plain(const std::string& text) { text_ += "<td>" + text_of(text) + "</td>"; }
    std::string text() const { return text_ + (open_ ? "</tr>\n" : "") + "</tbody></table></div>\n"; }

private:
    std::string text_ = "<div class=\"wide\"><table><thead><tr>";
    bool open_ = false;
};

std::string legend_entry(const std::string& style, const char* words) {
    return fmt::format(
        "<span><svg viewBox=\"0 0 12 12\"><rect width=\"12\" height=\"12\" rx=\"3\" class=\"{}\"/></svg>{}</span>\n",
        style, words);
}

std::string timeline_legend() {
    std::string text = "<div class=\"legend\">\n";
    text += legend_entry("generation complete", "complete generation");
    text += legend_entry("generation late", "late");
    text += legend_entry("generation failed", "failed or damaged");
    text += legend_entry("stall", "stall of training by a checkpoint");
    for (size_t which = 0; which < part_count; which++) text += legend_entry(part_class(which), part_names[which]);
    return text + "</div>\n";
}

std::string restart_rows(const story& told) {
    std::vector<column> titles{{"", align::right}, {"stopped at"}, {"why"}, {"lost", align::right}};
    for (const char* name : part_names) titles.push_back({name, align::right});
    titles.push_back({"steps again", align::right});
    html_table rows(titles);
    const size_t skipped = told.restarts.size() - std::min(told.restarts.size(), rows_max);
    for (size_t index = skipped; index < told.restarts.size(); index++) {
        const auto& one = told.restarts[index];
        rows.row();
        rows.number(index + 1);
        rows.plain(clock_text(one.stopped_wall_ns));
        rows.words(one.what);
        rows.number(one.planned ? "-" : span_text(one.total_ns()));
        for (const uint64_t cost : one.cost_ns) rows.number(span_text(cost));
        rows.number(one.steps_repeated());
    }
    return rows.text();
}

std::string start_rows(const story& told) {
    html_table rows({{"start", align::right},
                     {"began"},
                     {"job", align::right},
                     {"requeues", align::right},
                     {"nodes", align::right},
                     {"ranks", align::right},
                     {"from step", align::right},
                     {"to step", align::right},
                     {"a step takes", align::right},
                     {"end"}});
    size_t left = told.starts.size();
    for (const auto& [number, one] : told.starts) {
        if (left-- > rows_max) continue;
        rows.row();
        rows.number(number);
        rows.plain(clock_text(one.began_wall_ns));
        for (const uint64_t value : {one.job, one.requeues, one.nodes, one.ranks, one.restored_step, one.last_step()})
            rows.number(value);
        rows.number(span_text(one.step_ns));
        rows.plain(one.end.empty() ? "not told" : one.end);
    }
    return rows.text();
}

std::string generation_rows(const story& told) {
    html_table rows({{"step", align::right},
                     {"start", align::right},
                     {"settled at"},
                     {"size", align::right},
                     {"staged in", align::right},
                     {"written in", align::right},
                     {"stall", align::right},
                     {"state"}});
    size_t left = told.generations.size();
    for (const auto& [id, one] : told.generations) {
        if (left-- > rows_max) continue;
        rows.row();
        rows.number(one.step);
        rows.number(one.incarnation);
        rows.plain(one.settled_wall_ns == 0 ? "-" : clock_text(one.settled_wall_ns));
        rows.number(format_bytes(one.bytes));
        for (const uint64_t spent : {one.stage_ns, one.drain_ns, one.stall_ns}) rows.number(span_text(spent));
        rows.words(std::string(fate_name(one.what)) + (one.retired ? ", deleted since" : "") +
                   (one.why.empty() ? "" : ": " + one.why));
    }
    return rows.text();
}

std::string remark_rows(const story& told) {
    html_table rows({{"when"}, {"what"}});
    for (size_t index = told.remarks.size() - std::min(told.remarks.size(), rows_max); index < told.remarks.size();
         index++) {
        rows.row();
        rows.plain(clock_text(told.remarks[index].wall_ns));
        rows.words(told.remarks[index].text);
    }
    return rows.text();
}

std::string heading(const char* title, size_t count) {
    return fmt::format(
        "<h2>{}{}</h2>\n", title,
        count > rows_max ? fmt::format(" <span class=\"quiet\">(the newest {} of {})</span>", rows_max, count) : "");
}

std::string left_out(const story& told) {
    std::string text;
    if (told.unreadable_count > 0)
        text += fmt::format("<p class=\"bad\">{} lines of history.jsonl are no events and are left out.</p>\n",
                            told.unreadable_count);
    if (told.skipped_bytes > 0)
        text += fmt::format("<p class=\"bad\">The first {} of history.jsonl are left out.</p>\n",
                            format_bytes(told.skipped_bytes));
    return text;
}

}  // namespace

std::string report_html(const story& told, const std::string& path, uint64_t now_ns) {
    const std::string name = text_of(path.substr(path.rfind('/') + 1));
    std::string page =
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
        "'unsafe-inline'\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<title>" +
        name + "</title>\n<style>" + style_sheet + "</style></head><body>\n<h1>" + name + "</h1>\n";
    page += "<p>" + text_of(state_line(told, now_ns)) + "</p>\n<p class=\"quiet\">" + text_of(path) + ", as of " +
            clock_text(now_ns) + "</p>\n" + left_out(told) + "<dl>\n";
    for (const auto& [key, value] : key_figures(told, now_ns))
        page += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", key, text_of(value));
    page += "</dl>\n";
    if (!told.starts.empty()) page += "<h2>Timeline</h2>\n" + draw_timeline(told) + timeline_legend();
    if (!told.restarts.empty())
        page += "<h2>What each restart cost</h2>\n" + draw_costs(told) + heading("Restarts", told.restarts.size()) +
                restart_rows(told);
    if (!told.starts.empty()) page += heading("Starts", told.starts.size()) + start_rows(told);
    if (!told.generations.empty()) page += heading("Generations", told.generations.size()) + generation_rows(told);
    if (!told.remarks.empty()) page += heading("Remarks", told.remarks.size()) + remark_rows(told);
    return page + "</body></html>\n";
}

}  // namespace varde::cli
