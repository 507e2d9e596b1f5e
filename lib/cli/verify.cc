// varde verify: everything is read, every checksum compared.
#include "base/clock.h"
#include "base/units.h"
#include "cli/check.h"
#include "cli/json_text.h"
#include "cli/ls.h"
#include "cli/target.h"
#include "cli/verbs.h"
#include "base/limits.h"
#include "pack/text.h"
#include "store/files.h"
#include "store/names.h"
#include "store/place.h"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <sys/stat.h>

namespace varde::cli {

namespace {

// A generation and the packs of it that are to be read.
struct generation_job {
    std::string path;
    store::generation what;
    std::vector<pack_job> packs;
};

uint64_t size_of(const std::string& path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

void expect_record(const store::manifest& record, expectation& wanted) {
    wanted.world = record.world;
    wanted.recorded_count = record.packs.size();
    if (wanted.node_index < record.packs.size()) wanted.recorded = record.packs[wanted.node_index];
}

expectation expect_place(const std::string& run, store::generation_id id, uint32_t node_index, uint32_t node_count) {
    return {.run = run,
            .id = id,
            .node_index = node_index,
            .node_count = node_count,
            .recorded = {},
            .recorded_count = {},
            .world = {}};
}

generation_job job_of(const store::run_directory& run, const std::string& path, const store::generation& what) {
    generation_job job{.path = path, .what = what, .packs = {}};
    const auto record = run.read_manifest(what.id);
    for (uint32_t node = 0; node < what.node_count; node++) {
        const std::string file = path + "/" + store::pack_name(node, what.node_count);
        struct stat info {};
        // Missing packs are the generation's fault, and told as such.
        if (::lstat(file.c_str(), &info) != 0 && errno == ENOENT) continue;
        expectation wanted = expect_place(name_of(run.path()), what.id, node, what.node_count);
        if (record) expect_record(*record, wanted);
        job.packs.push_back({.path = file,
                             .reached = run.find_pack(what.id, node, what.node_count),
                             .size_bytes = size_of(file),
                             .expected = wanted});
    }
    return job;
}

// The generations to verify: all of each run, or the one that was named.
result<std::vector<generation_job>> collect(const target& where) {
    std::vector<generation_job> jobs;
    for (const std::string& path : where.runs) {
        const auto run = open_run(path);
        if (!run) return run.error();
        const auto generations = run->list();
        if (!generations) return generations.error();
        for (const auto& each : *generations) {
            if (where.kind == target_kind::generation && each.id != where.id) continue;
            const std::string below = path + "/" + store::generation_name(each.id);
            jobs.push_back(job_of(*run, below, each));
        }
    }
    if (where.kind == target_kind::generation && jobs.empty())
        return fail(code::not_found,
                    "couldn't find " + pack::in_quotes(where.path) + ": it was deleted in this moment");
    return jobs;
}

// A pack on a mount stands in a root that names its run (agent.mounts).
std::string run_of(const std::string& above) {
    if (!store::is_place_id(name_of(above))) return above;
    const std::string path = above + "/" + std::string(store::owner_name);
    const auto text = store::files::read_text(AT_FDCWD, path, 2UL * limits::path_bytes_max, path);
    const auto owner = text ? store::parse_owner(*text) : std::nullopt;
    return owner ? owner->path : above;
}

// A pack by itself; in its place in a run it must also be the one that belongs there, and that was committed.
generation_job lone_pack(const std::string& path) {
    generation_job job{.path = parent_of(path), .what = {}, .packs = {}};
    job.packs.push_back({.path = path, .reached = path, .size_bytes = size_of(path), .expected = {}});
    const auto id = store::parse_generation_name(name_of(job.path));
    const auto parts = store::parse_pack_name(name_of(path));
    if (!id || !parts) return job;
    const std::string run_path = run_of(parent_of(job.path));
    expectation& wanted =
        job.packs.front().expected.emplace(expect_place(name_of(run_path), *id, parts->node_index, parts->node_count));
    const auto run = open_run(run_path);
    const auto record = run ? run->read_manifest(*id) : result<store::manifest>(run.error());
    if (record) expect_record(*record, wanted);
    // None: the generation is not committed yet, or the folder around is only named like one.
    else if (record.error().what == code::damaged) job.what.reason = record.error().context;
    return job;
}

// Prints as it goes and sums up.
class verification {
public:
    verification(const verify_options& options, console to, uint64_t total_bytes)
        : options_(options), to_(to), shown_(to.err, total_bytes) {}

    void pack(const pack_report& report) {
        packs_++;
        bytes_ += report.size_bytes;
        auto findings = nlohmann::ordered_json::array();
        for (const finding& each : report.findings) {
            const bool damage = each.what == code::damaged;
            note(damage ? status::damaged : status::failed);
            findings.push_back({{"kind", damage ? "damaged" : "unreadable"},
                                {"text", each.text},
                                {"rank", nullptr},
                                {"chunk", nullptr},
                                {"tensors", each.tensors}});
            if (each.rank) findings.back()["rank"] = *each.rank;
            if (each.chunk) findings.back()["chunk"] = *each.chunk;
        }
        packs_json_.push_back({{"path", report.path},
                               {"good", report.findings.empty()},
                               {"size_bytes", report.size_bytes},
                               {"findings", findings}});
        if (options_.json) return;
        shown_.clear();
        fmt::print(to_.out, "{}  {}  {}\n", verdict(report), pack::escaped(report.path, 4096),
                   format_bytes(report.size_bytes));
        for (const finding& each : report.findings) fmt::print(to_.out, "    {}\n", pack::escaped(each.text, 4096));
    }

    void generation(const generation_job& job, bool named);

    // All packs of a job, and its manifest where that is no use; false when its generation was retired meanwhile.
    bool packs(const generation_job& job);

    status end(uint64_t spent_ns) {
        const char* word = outcome_ == status::good ? "good" : outcome_ == status::damaged ? "damaged" : "unreadable";
        if (options_.json) {
            fmt::print(to_.out, "{}",
                       json_text({{"verdict", word},
                                  {"generations", generations_json_},
                                  {"damaged_manifests", manifests_json_},
                                  {"packs", packs_json_}}));
            return outcome_;
        }
        shown_.clear();
        const char* sum = outcome_ == status::good      ? "all good"
                          : outcome_ == status::damaged ? "damage found"
                                                        : "not all could be read";
        fmt::print(to_.out, "{} {}, {} read in {:.1f} s: {}\n", packs_, packs_ == 1 ? "pack" : "packs",
                   format_bytes(bytes_), static_cast<double>(spent_ns) / static_cast<double>(ns_per_s), sum);
        return outcome_;
    }

private:
    static const char* verdict(const pack_report& report) {
        if (report.findings.empty()) return "good      ";
        const bool damage = std::any_of(report.findings.begin(), report.findings.end(),
                                        [](const finding& each) { return each.what == code::damaged; });
        return damage ? "damaged   " : "unreadable";
    }
    // Damage is certain; what could not be read may still be good.
    void note(status what) {
        if (what == status::damaged || outcome_ == status::good) outcome_ = what;
    }

    const verify_options& options_;
    const console to_;
    progress shown_;
    status outcome_ = status::good;
    uint64_t packs_ = 0;
    uint64_t bytes_ = 0;
    nlohmann::ordered_json packs_json_ = nlohmann::ordered_json::array();
    nlohmann::ordered_json manifests_json_ = nlohmann::ordered_json::array();
    nlohmann::ordered_json generations_json_ = nlohmann::ordered_json::array();
};

// An unfinished generation is nothing bad in a run (a node died in the middle), but not what somebody hopes for who
// names it.
void verification::generation(const generation_job& job, bool named) {
    using store::generation_status;
    const bool complete = job.what.status == generation_status::complete;
    if (job.what.status == generation_status::damaged || (named && !complete)) note(status::damaged);
    const std::string state = state_text(job.what);
    generations_json_.push_back({{"path", job.path}, {"complete", complete}, {"state", state}});
    if (!complete && !options_.json) {
        shown_.clear();
        fmt::print(to_.out, "{}  {}  {}\n", job.what.status == generation_status::damaged ? "damaged   " : "incomplete",
                   pack::escaped(job.path, 4096), state);
    }
    if (packs(job)) return;
    generations_json_.back()["complete"] = false;
    generations_json_.back()["state"] = "retired";
    // What newer generations have made superfluous is no loss, but not what somebody hopes for who names it.
    if (named) note(status::failed);
    if (options_.json) return;
    shown_.clear();
    fmt::print(to_.out, "retired     {}  deleted in this moment\n", pack::escaped(job.path, 4096));
}

bool verification::packs(const generation_job& job) {
    for (const pack_job& each : job.packs) {
        const pack_report report = check_pack(each, shown_);
        struct stat info {};
        const bool retired = !report.findings.empty() && report.findings.front().what == code::not_found &&
                             ::lstat(job.path.c_str(), &info) != 0 && errno == ENOENT;
        if (retired) return false;
        pack(report);
    }
    if (job.what.committed || job.what.reason.empty() || job.what.status == store::generation_status::damaged)
        return true;
    note(status::damaged);
    manifests_json_.push_back(
        {{"path", job.path + "/" + std::string(store::manifest_name)}, {"text", job.what.reason}});
    if (options_.json) return true;
    shown_.clear();
    fmt::print(to_.out, "damaged     {}/{}\n    {}; the packs' names decide in its place\n",
               pack::escaped(job.path, 4096), store::manifest_name, pack::escaped(job.what.reason, 4096));
    return true;
}

}  // namespace

status verify(const verify_options& options, console to) {
    const auto where = find_target(options.path);
    auto jobs = where ? where->kind == target_kind::pack ? std::vector<generation_job>() : collect(*where)
                      : result<std::vector<generation_job>>(where.error());
    if (!jobs) {
        complain(to, jobs.error());
        return status::failed;
    }
    const uint64_t start = mono_ns();
    uint64_t total = where->kind == target_kind::pack ? size_of(where->path) : 0;
    for (const auto& job : *jobs) {
        for (const auto& each : job.packs) total += each.size_bytes;
    }
    verification all(options, to, total);
    if (where->kind == target_kind::pack && !all.packs(lone_pack(where->path))) {
        complain(to, fail(code::not_found, "couldn't verify " + pack::in_quotes(where->path) +
                                               ": its generation was deleted in this moment"));
        return status::failed;
    }
    for (const auto& job : *jobs) all.generation(job, where->kind == target_kind::generation);
    return all.end(mono_ns() - start);
}

}  // namespace varde::cli
