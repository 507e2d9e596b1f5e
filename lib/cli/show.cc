// varde show: the tensors of a pack, or of all packs of a generation.
#include "cli/show.h"

#include "base/units.h"
#include "cli/json_text.h"
#include "cli/pack_input.h"
#include "cli/table.h"
#include "cli/target.h"
#include "pack/text.h"
#include "store/names.h"

#include <fmt/format.h>
#include <fnmatch.h>

namespace varde::cli {

namespace {

constexpr size_t name_width_max = 120;  // of a table; JSON has the whole

nlohmann::ordered_json pack_json(const pack_input& input, const show_options& options) {
    const pack::image& image = input.image();
    const pack::identity& who = image.who;
    auto ranks = nlohmann::ordered_json::array();
    for (const auto& each : image.ranges) ranks.push_back(each.what.rank);
    return {{"path", input.path()},
            {"run", who.run},
            {"step", who.step},
            {"incarnation", who.incarnation},
            {"node_index", who.node_index},
            {"node_count", who.node_count},
            {"world", who.world},
            {"ranks", ranks},
            {"library", who.library},
            {"chunk_bytes", image.chunk_bytes},
            {"size_bytes", image.file_bytes},
            {"tensors", tensor_json(image, options)}};
}

std::string title(const pack_input& input) {
    const pack::image& image = input.image();
    const pack::identity& who = image.who;
    return fmt::format(
        "{}\n  run {}, step {}, incarnation {}, node {} of {}, {} of {} ranks, {} in chunks of {}, written by version "
        "{}\n",
        pack::escaped(input.path(), 4096), who.run, who.step, who.incarnation, who.node_index, who.node_count,
        image.ranges.size(), who.world, format_bytes(image.file_bytes), format_bytes(image.chunk_bytes),
        who.library.empty() ? "unknown" : who.library);
}

// A pack to show: its path, and where that leads.
struct shown_pack {
    std::string path;
    result<std::string> reached;
};

result<std::vector<shown_pack>> packs_of(const target& where) {
    if (where.kind == target_kind::pack) return std::vector{shown_pack{where.path, where.path}};
    if (where.kind != target_kind::generation)
        return fail(code::invalid, "couldn't show " + pack::in_quotes(where.path) +
                                       ": it is no pack and no generation; 'varde ls' lists the generations, " +
                                       "give one as " + pack::in_quotes(where.runs.front() + "/step-..."));
    const auto run = open_run(where.runs.front());
    const auto generations = run ? run->list() : result<std::vector<store::generation>>(run.error());
    if (!generations) return generations.error();
    std::vector<shown_pack> packs;
    for (const auto& each : *generations) {
        if (each.id != where.id) continue;
        for (uint32_t node = 0; node < each.node_count; node++) {
            const std::string path = where.path + "/" + store::pack_name(node, each.node_count);
            // Missing packs of an unfinished generation have nothing to show; 'varde ls' names them.
            if (::access(path.c_str(), F_OK) == 0 || errno != ENOENT)
                packs.push_back({path, run->find_pack(each.id, node, each.node_count)});
        }
    }
    if (packs.empty())
        return fail(code::not_found, "couldn't show " + pack::in_quotes(where.path) + ": it has no finished pack yet");
    return packs;
}

}  // namespace

std::string shape_text(const std::vector<uint64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string place_text(const pack::shard& what) {
    if (what.global_shape.empty()) return "whole";
    std::string text = "[";
    for (size_t dim = 0; dim < what.offset.size(); dim++)
        text += fmt::format("{}{}:{}", dim == 0 ? "" : ", ", what.offset[dim], what.offset[dim] + what.shape[dim]);
    return text + "] of " + shape_text(what.global_shape);
}

bool is_wanted(const show_options& options, uint32_t rank, const pack::shard& what) {
    if (options.rank && *options.rank != rank) return false;
    return options.name.empty() || ::fnmatch(options.name.c_str(), what.name.c_str(), 0) == 0;
}

std::string tensor_table(const pack::image& from, const show_options& options) {
    table rows({{"RANK", align::right},
                {"NAME"},
                {"TYPE"},
                {"SHAPE"},
                {"PLACE"},
                {"SIZE", align::right},
                {"OFFSET", align::right}});
    for (const auto& where : from.ranges) {
        for (const auto& each : where.what.shards) {
            if (!is_wanted(options, where.what.rank, each)) continue;
            rows.add({std::to_string(where.what.rank), pack::escaped(each.name, name_width_max),
                      pack::dtype_name(each.type), shape_text(each.shape), place_text(each),
                      format_bytes(each.size_bytes), std::to_string(where.file_offset + each.offset_bytes)});
        }
    }
    return rows.text(2);
}

nlohmann::ordered_json tensor_json(const pack::image& from, const show_options& options) {
    auto list = nlohmann::ordered_json::array();
    for (const auto& where : from.ranges) {
        for (const auto& each : where.what.shards) {
            if (!is_wanted(options, where.what.rank, each)) continue;
            list.push_back(
                {{"rank", where.what.rank},
                 {"name", each.name},
                 {"dtype", pack::dtype_name(each.type)},
                 {"shape", each.shape},
                 {"global_shape", each.global_shape.empty() ? each.shape : each.global_shape},
                 {"offset", each.global_shape.empty() ? std::vector<uint64_t>(each.shape.size(), 0) : each.offset},
                 {"size_bytes", each.size_bytes},
                 {"file_offset", where.file_offset + each.offset_bytes}});
        }
    }
    return list;
}

status show(const show_options& options, console to) {
    const auto where = find_target(options.path);
    const auto found = where ? packs_of(*where) : result<std::vector<shown_pack>>(where.error());
    if (!found) {
        complain(to, found.error());
        return status::failed;
    }
    status outcome = status::good;
    auto packs = nlohmann::ordered_json::array();
    for (const shown_pack& each : *found) {
        const auto input =
            each.reached ? pack_input::open(*each.reached, each.path) : result<pack_input>(each.reached.error());
        if (!input) {
            // One pack that is damaged must not hide the others.
            complain(to, input.error());
            if (outcome != status::damaged)
                outcome = input.error().what == code::damaged ? status::damaged : status::failed;
            continue;
        }
        if (options.json) packs.push_back(pack_json(*input, options));
        else
            fmt::print(to.out, "{}{}{}", &each == &found->front() ? "" : "\n", title(*input),
                       tensor_table(input->image(), options));
    }
    if (options.json) fmt::print(to.out, "{}", json_text({{"packs", packs}}));
    return outcome;
}

}  // namespace varde::cli
