// Checking of one pack: header, seal, identity, manifest, then chunk by chunk.
#include "cli/check.h"

#include "base/pages.h"
#include "pack/text.h"

#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <mutex>
#include <system_error>
#include <thread>

namespace varde::cli {

namespace {

constexpr unsigned threads_max = 4;      // reading and checksums of one pack overlap; each holds one chunk
constexpr size_t named_tensors_max = 3;  // in a message for people; JSON has all

std::string tensor_list(const std::vector<std::string>& names) {
    if (names.empty()) return "padding only";
    std::string text = names.size() == 1 ? "tensor " : "tensors ";
    for (size_t index = 0; index < std::min(names.size(), named_tensors_max); index++)
        text += (index == 0 ? "" : ", ") + pack::in_quotes(names[index]);
    if (names.size() > named_tensors_max) text += fmt::format(" and {} more", names.size() - named_tensors_max);
    return text;
}

// A misplaced pack, or one that is not the one that was committed.
std::vector<finding> check_expectation(const pack_input& input, uint64_t size_bytes, const expectation& wanted) {
    std::vector<finding> found;
    const auto differs = [&](const std::string& text) {
        found.push_back({.what = code::damaged, .text = text, .rank = {}, .chunk = {}, .tensors = {}});
    };
    const pack::identity& who = input.image().who;
    if (who.step != wanted.id.step || who.incarnation != wanted.id.incarnation)
        differs(
            fmt::format("it is a pack of step {}, incarnation {}, in the place of another", who.step, who.incarnation));
    if (who.node_index != wanted.node_index || who.node_count != wanted.node_count)
        differs(fmt::format("it is the pack of node {} of {}, under another's name", who.node_index, who.node_count));
    if (who.run != wanted.run)
        differs(fmt::format("it is a pack of the run {}, not of {}", pack::in_quotes(who.run),
                            pack::in_quotes(wanted.run)));
    if (wanted.recorded_count && *wanted.recorded_count != wanted.node_count)
        differs(fmt::format("it is one of {} packs, its manifest lists {}", wanted.node_count, *wanted.recorded_count));
    if (wanted.world && who.world != *wanted.world)
        differs(fmt::format("it has a world of {} ranks, its manifest says {}", who.world, *wanted.world));
    if (wanted.recorded && size_bytes != wanted.recorded->size_bytes)
        differs(fmt::format("it has {} bytes, its manifest says {}", size_bytes, wanted.recorded->size_bytes));
    if (wanted.recorded && input.seal_checksum() != wanted.recorded->seal_checksum)
        differs(fmt::format(
            "its seal has checksum {:016x}, its manifest says {:016x}: it is not the pack that was committed",
            input.seal_checksum(), wanted.recorded->seal_checksum));
    return found;
}

// All chunks of a pack, handed to whichever thread asks next.
class chunk_check {
public:
    chunk_check(const pack_input& input, progress& shown) : input_(input), shown_(shown) {}

    std::vector<finding> run() {
        const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
        const auto count =
            static_cast<unsigned>(std::min<uint64_t>({threads_max, 2 * cores, input_.image().chunk_count}));
        std::vector<std::thread> others;
        others.reserve(count);
        try {
            for (unsigned index = 1; index < count; index++) others.emplace_back([this] { work(); });
        } catch (const std::system_error&) {
            // No more threads for us (a process limit): those that run, at least this one, do all of it.
        }
        if (count > 0) work();
        for (std::thread& each : others) each.join();
        const auto place = [](const finding& each) { return std::pair(each.rank.value_or(0), each.chunk.value_or(0)); };
        std::stable_sort(found_.begin(), found_.end(),
                         [&](const finding& a, const finding& b) { return place(a) < place(b); });
        return std::move(found_);
    }

private:
    void work() {
        const auto buffer = make_pages(input_.image().chunk_bytes);
        if (!buffer)
            return note(
                {.what = code::no_memory, .text = buffer.error().context, .rank = {}, .chunk = {}, .tensors = {}});
        for (uint64_t index = next_++; index < input_.image().chunk_count; index = next_++) check(index, buffer->get());
    }
    void check(uint64_t index, std::byte* buffer) {
        const auto& ranges = input_.image().ranges;
        // The last range that begins at or before this chunk; empty ones begin where the next does and come before it.
        const auto behind =
            std::upper_bound(ranges.begin(), ranges.end(), index,
                             [](uint64_t at, const pack::placed_range& each) { return at < each.first_chunk; });
        const pack::placed_range& where = *(behind - 1);
        const uint64_t chunk = index - where.first_chunk;
        const auto good = input_.check_chunk(where, chunk, buffer);
        shown_.add(pack::place_of_chunk(input_.image(), where, chunk).size_bytes);
        if (good) return;
        auto tensors = tensors_in_chunk(where.what, input_.image().chunk_bytes, chunk);
        std::string text = good.error().context + "; in it: " + tensor_list(tensors);
        note({.what = good.error().what,
              .text = std::move(text),
              .rank = where.what.rank,
              .chunk = chunk,
              .tensors = std::move(tensors)});
    }
    void note(finding what) {
        const std::lock_guard lock(mutex_);
        found_.push_back(std::move(what));
    }

    const pack_input& input_;
    progress& shown_;
    std::atomic<uint64_t> next_{0};
    std::mutex mutex_;  // of found_
    std::vector<finding> found_;
};

}  // namespace

std::vector<std::string> tensors_in_chunk(const pack::range& of, uint64_t chunk_bytes, uint64_t chunk_in_range) {
    const uint64_t begin = chunk_in_range * chunk_bytes;
    const uint64_t end = begin + chunk_bytes;
    std::vector<std::string> names;
    for (const pack::shard& each : of.shards) {
        if (each.size_bytes > 0 && each.offset_bytes < end && each.offset_bytes + each.size_bytes > begin)
            names.push_back(each.name);
    }
    return names;
}

pack_report check_pack(const pack_job& job, progress& shown) {
    pack_report report{.path = job.path, .size_bytes = job.size_bytes, .findings = {}};
    const auto input = job.reached ? pack_input::open(*job.reached, job.path) : result<pack_input>(job.reached.error());
    if (!input) {
        shown.add(job.size_bytes);
        report.findings.push_back(
            {.what = input.error().what, .text = input.error().context, .rank = {}, .chunk = {}, .tensors = {}});
        return report;
    }
    report.size_bytes = input->image().file_bytes;
    if (job.expected) report.findings = check_expectation(*input, report.size_bytes, *job.expected);
    auto chunks = chunk_check(*input, shown).run();
    report.findings.insert(report.findings.end(), std::make_move_iterator(chunks.begin()),
                           std::make_move_iterator(chunks.end()));
    return report;
}

}  // namespace varde::cli
