// A checkpoint until it is durable, in turns with its peers, in the same directory and of the same size.
//
// Ours is a training job's: from varde_save to the end of varde_wait on all ranks, with everything in between (copy,
// layout, header, reservation, checksums, writes, fsync, rename, commit record).
#include "peers.h"
#include "plot.h"
#include "trainer.h"

#include "base/units.h"

namespace varde::bench {

namespace {

using rounds = std::vector<std::vector<double>>;

result<rounds> measure(const settings& with, const std::string& name, uint64_t size_bytes) {
    result<std::unique_ptr<trainer>> job = trainer::start(with, {.name = name, .ranks = 2, .size_bytes = size_bytes});
    if (!job) return job.error();
    if (const result<uint64_t> fresh = (*job)->restore(); !fresh) return fresh.error();
    uint64_t step = 0;
    auto seconds = take_turns(
        with, "durable, " + format_bytes(size_bytes),
        {[&] { return (*job)->save_durably(++step); }, [&] { return run_fio(with, fio_way::write, size_bytes); },
         [&] { return write_plainly(with, (*job)->memory()); }});
    if (!seconds) return seconds.error();
    if (const result<void> closed = (*job)->close(); !closed) return closed.error();
    return seconds;
}

}  // namespace

result<figures> durable_figures(const settings& with) {
    const result<rounds> seconds = measure(with, "durable", with.size_bytes);
    if (!seconds) return seconds.error();
    return figures{median_of("write_vs_fio", "", speed_ratios(*seconds, 0, 1), goal_kind::at_least, 0.95,
                             "2 ranks, " + speed_text(with.size_bytes, (*seconds)[0]) +
                                 " from varde_save until "
                                 "committed; fio " +
                                 speed_text(with.size_bytes, (*seconds)[1])),
                   median_of("write_vs_plain", "", speed_ratios(*seconds, 0, 2), goal_kind::at_least, 1,
                             "against write() and fsync by hand: " + speed_text(with.size_bytes, (*seconds)[2]))};
}

result<figures> size_figures(const settings& with) {
    constexpr uint64_t smallest_bytes = 16ULL << 20;
    settings fewer = with;
    fewer.pairs = 3;
    plot picture;
    picture.title = "Bandwidth of a durable checkpoint";
    picture.subtitle = "2 ranks of one node; median of 3; the peers have neither checksums nor a commit record";
    picture.x = {.label = "size of the checkpoint", .doubling = true, .bytes = true};
    picture.y = {.label = "GB/s until durable"};
    picture.lines = {{"Varde", {}}, {"fio, write and fsync", {}}, {"write() and fsync by hand", {}}};
    for (uint64_t size_bytes = smallest_bytes; size_bytes <= with.size_bytes; size_bytes *= 2) {
        const result<rounds> seconds = measure(fewer, "size-" + std::to_string(size_bytes), size_bytes);
        if (!seconds) return seconds.error();
        for (size_t line = 0; line < picture.lines.size(); ++line)
            picture.lines[line].points.emplace_back(static_cast<double>(size_bytes),
                                                    static_cast<double>(size_bytes) / median((*seconds)[line]) / 1e9);
    }
    if (const result<void> drawn = write_plot(picture, with.plot_directory + "/bandwidth.svg"); !drawn)
        return drawn.error();
    return figures{};
}

}  // namespace varde::bench
