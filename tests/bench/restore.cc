// A restart: what varde_restore needs to fill the memory of all ranks, verified, against fio's plain read.
//
// Each time with a new agent, as after a node has failed; files are read with O_DIRECT by both, so the page cache has
// no part in it.  Ours includes taking the incarnation, choosing the generation and agreeing on it.  The second figure
// tells whether copying bounds the first: fio, while another thread does to as many bytes what a restore cannot do
// without.
#include "peers.h"
#include "trainer.h"

#include "base/clock.h"
#include "base/limits.h"

namespace varde::bench {

namespace {

constexpr uint64_t saved_step = 7;

result<double> restore_once(const settings& with, const trainer_options& wanted) {
    result<std::unique_ptr<trainer>> job = trainer::start(with, wanted);
    if (!job) return job.error();
    const uint64_t start = mono_ns();
    const result<uint64_t> step = (*job)->restore();
    const double took_s = seconds_since(start);
    if (!step) return step.error();
    if (*step != saved_step) return fail(code::internal, "step " + std::to_string(*step) + " was restored");
    if (const result<void> closed = (*job)->close(); !closed) return closed.error();
    return took_s;
}

result<void> save_once(const settings& with, const trainer_options& wanted) {
    result<std::unique_ptr<trainer>> job = trainer::start(with, wanted);
    if (!job) return job.error();
    if (const result<uint64_t> fresh = (*job)->restore(); !fresh) return fresh.error();
    if (const result<double> saved = (*job)->save_durably(saved_step); !saved) return saved.error();
    return (*job)->close();
}

}  // namespace

result<figures> restore_figures(const settings& with) {
    const trainer_options wanted{.name = "restore", .ranks = 2, .size_bytes = with.size_bytes};
    if (const result<void> saved = save_once(with, wanted); !saved) return saved.error();
    const result<mapping> source = map_memory(fio_depth * limits::chunk_bytes_default);
    const result<mapping> target = map_memory(with.size_bytes);
    if (!source || !target) return (source ? target : source).error();
    double pace_s = 1;
    const turn plain_fio = [&] {
        result<double> took_s = run_fio(with, fio_way::read, with.size_bytes);
        if (took_s) pace_s = *took_s;
        return took_s;
    };
    const auto seconds = take_turns(with, "restore_vs_fio",
                                    {[&] { return restore_once(with, wanted); }, plain_fio,
                                     [&] { return read_beside_copy(with, *source, *target, pace_s); }});
    if (!seconds) return seconds.error();
    const std::string ours = "2 ranks, " + speed_text(with.size_bytes, (*seconds)[0]) + " of varde_restore; fio ";
    return figures{median_of("restore_vs_fio", "", speed_ratios(*seconds, 0, 1), goal_kind::at_least, 0.95,
                             ours + speed_text(with.size_bytes, (*seconds)[1])),
                   median_of("restore_vs_fio_copy", "", speed_ratios(*seconds, 0, 2), goal_kind::at_least, 0.95,
                             ours + "beside one copy of each byte: " + speed_text(with.size_bytes, (*seconds)[2]))};
}

}  // namespace varde::bench
