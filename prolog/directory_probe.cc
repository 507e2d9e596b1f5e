// From a hanging or a clear answer to one line for people.
#include "prolog/directory_probe.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/units.h"

#include <algorithm>
#include <csignal>

namespace varde::node {

namespace {

constexpr int end_ms = 100;
constexpr size_t shown_bytes_max = 512;

}  // namespace

directory_probe directory_probe::begin(const request& job, state& made) {
    directory_probe asked;
    const auto place = place_of(job);
    if (!place) return asked;
    made.directory = place->directory;
    asked.began_ns_ = mono_ns();
    auto errand = user_errand::begin(job.uid, job.gid, [&place] { return encode_view(look_at(*place)); });
    if (errand) {
        made.probe = errand->process();
        asked.errand_ = std::move(*errand);
    } else {
        asked.failure_ = "could not be looked at: " + errand.error().context;
    }
    return asked;
}

const std::optional<directory_view>& directory_probe::wait(int timeout_ms) {
    const auto answer = errand_ && failure_.empty() && !view_ ? errand_->wait(timeout_ms) : std::nullopt;
    if (!answer) return view_;
    auto view = decode_view(*answer);
    if (view) view_ = std::move(*view);
    else failure_ = "could not be looked at: the user's process gave " + view.error().context;
    return view_;
}

void directory_probe::finish(const request& job, int timeout_ms, state& made) {
    if (made.directory.empty()) return;
    const auto until = deadline::at_ns(began_ns_ + static_cast<uint64_t>(timeout_ms) * ns_per_ms);
    wait(until.left_ms());
    const std::string name = "checkpoint directory '" + printable(made.directory, shown_bytes_max) + "' ";
    if (!failure_.empty()) {
        made.directory_problem = name + failure_ + "; the job starts all the same";
    } else if (!view_) {
        made.directory_problem = name + "did not answer within " + std::to_string(timeout_ms / 1000) +
                                 " s: its file system hangs; the job starts, and has no checkpoints until it answers; "
                                 "look at the mount and its server";
    } else if (!view_->problem.empty()) {
        made.directory_problem =
            name + "cannot be used as it is: " + view_->problem + "; the job starts, and has no checkpoints there";
    } else {
        const std::string space = describe_space(*view_, made.arena_bytes, job.node_count);
        if (!space.empty()) made.directory_problem = name + space;
    }
    if (!errand_ || errand_->end()) made.probe = {};
}

std::string describe_space(const directory_view& view, uint64_t arena_bytes, uint32_t node_count) {
    const uint64_t need = checked_multiply(arena_bytes, node_count).value_or(UINT64_MAX);
    if (!view.sized || view.free_bytes >= need) return "";
    return "is nearly full: a checkpoint of this job may need up to " + format_bytes(need) + " (" +
           std::to_string(node_count) + " x --ckpt-memory), and " + format_bytes(view.free_bytes) + " of " +
           format_bytes(view.total_bytes) +
           " are free; the job starts, and a checkpoint that does not fit is given up; free space there, or give "
           "another --ckpt-dir";
}

bool end_left_probe(const state& before) {
    const auto left = open_process(before.probe.pid, before.probe.start_ticks);
    if (!left) return true;
    send_signal(left->get(), SIGKILL);
    return wait_process(left->get(), end_ms);
}

std::string held_probe_line(const state& before) {
    return "process " + std::to_string(before.probe.pid) + ", which looked at '" +
           printable(before.directory, shown_bytes_max) +
           "', survived SIGKILL: the kernel holds it because that file system hangs; it ends when that answers";
}

}  // namespace varde::node
