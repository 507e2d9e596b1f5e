// varde ls: the generations of a run, or of each run in a directory.
#include "cli/ls.h"

#include "base/clock.h"
#include "base/units.h"
#include "cli/json_text.h"
#include "cli/table.h"
#include "cli/target.h"
#include "cli/verbs.h"
#include "pack/text.h"

#include <fmt/format.h>

namespace varde::cli {

namespace {

constexpr uint64_t minute_s = 60;
constexpr uint64_t hour_s = 60 * minute_s;
constexpr uint64_t day_s = 24 * hour_s;

const char* status_name(store::generation_status what) {
    switch (what) {
    case store::generation_status::complete: return "complete";
    case store::generation_status::incomplete: return "incomplete";
    case store::generation_status::damaged: return "damaged";
    case store::generation_status::writing: return "writing";
    }
    return "unknown";
}

std::string missing_text(const store::generation& what) {
    const uint32_t count = what.node_count - what.packs_sealed;
    if (what.node_count == 0) return "no pack yet";
    std::string text = count == 1 ? "node " : "nodes ";
    for (size_t index = 0; index < what.missing.size(); index++)
        text += (index == 0 ? "" : ", ") + std::to_string(what.missing[index]);
    if (count > what.missing.size()) text += " and " + std::to_string(count - what.missing.size()) + " more";
    return text + " missing";
}

}  // namespace

std::string age_text(uint64_t wall_ns, uint64_t now_ns) {
    if (wall_ns >= now_ns) return "now";
    uint64_t seconds = (now_ns - wall_ns) / ns_per_s;
    if (seconds >= day_s) seconds -= seconds % hour_s;
    else if (seconds >= hour_s) seconds -= seconds % minute_s;
    return format_duration(seconds);
}

std::string state_text(const store::generation& what) {
    const std::string name = status_name(what.status);
    switch (what.status) {
    case store::generation_status::complete: return name;
    case store::generation_status::damaged: return name + ": " + pack::escaped(what.reason, 400);
    default: return name + ", " + missing_text(what);
    }
}

std::string list_table(const std::vector<store::generation>& generations, uint64_t now_ns) {
    table rows({{"STEP", align::right},
                {"INCARNATION", align::right},
                {"PACKS", align::right},
                {"SIZE", align::right},
                {"AGE", align::right},
                {"STATE"}});
    for (const auto& each : generations) {
        rows.add({std::to_string(each.id.step), std::to_string(each.id.incarnation),
                  fmt::format("{}/{}", each.packs_sealed, each.node_count), format_bytes(each.size_bytes),
                  age_text(each.wall_ns, now_ns), state_text(each)});
    }
    return rows.text(2);
}

nlohmann::ordered_json list_json(const std::vector<store::generation>& generations) {
    auto list = nlohmann::ordered_json::array();
    for (const auto& each : generations) {
        list.push_back({{"name", store::generation_name(each.id)},
                        {"step", each.id.step},
                        {"incarnation", each.id.incarnation},
                        {"status", status_name(each.status)},
                        {"committed", each.committed},
                        {"node_count", each.node_count},
                        {"packs_sealed", each.packs_sealed},
                        {"missing_nodes", each.missing},
                        {"size_bytes", each.size_bytes},
                        {"changed_ns", each.wall_ns},
                        {"reason", each.reason}});
    }
    return list;
}

status list(const list_options& options, console to) {
    auto where = find_target(options.path);
    if (where && (where->kind == target_kind::pack || where->kind == target_kind::generation))
        where = fail(code::invalid, "couldn't list " + pack::in_quotes(options.path) + ": it is a " +
                                        (where->kind == target_kind::pack ? "file" : "generation") +
                                        ", not a run; try 'varde show' or 'varde verify'");
    if (!where) {
        complain(to, where.error());
        return status::failed;
    }
    status outcome = status::good;
    auto runs = nlohmann::ordered_json::array();
    for (const std::string& path : where->runs) {
        const auto run = open_run(path);
        const auto generations = run ? run->list() : result<std::vector<store::generation>>(run.error());
        if (!generations) {
            // One run that cannot be read must not hide the others.
            complain(to, generations.error());
            outcome = status::failed;
            continue;
        }
        if (options.json) {
            runs.push_back({{"run", name_of(path)}, {"path", path}, {"generations", list_json(*generations)}});
            continue;
        }
        fmt::print(to.out, "{}{}\n", &path == &where->runs.front() ? "" : "\n", pack::escaped(path, 4096));
        if (generations->empty()) fmt::print(to.out, "  no generations yet\n");
        else fmt::print(to.out, "{}", list_table(*generations, wall_ns()));
    }
    if (options.json) fmt::print(to.out, "{}", json_text({{"runs", runs}}));
    return outcome;
}

}  // namespace varde::cli
