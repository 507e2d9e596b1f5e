// Reading a generation.
#include "agent/load.h"

#include "agent/transfers.h"

#include "base/checked.h"
#include "base/limits.h"
#include "base/units.h"
#include "io/direct.h"
#include "pack/reader.h"
#include "store/files.h"
#include "store/pack_head.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>

namespace varde::agent {

namespace {

constexpr int look_ms = 50;
constexpr int held_at_a_time = 32;  // chunks

constexpr uint64_t cookie_of(size_t target, size_t place) { return uint64_t{target} << 32 | place; }

}  // namespace

std::vector<load_step> cut_into_steps(const std::vector<pack::piece>& pieces, const std::vector<range_origin>& origin,
                                      const std::vector<load_source>& sources) {
    std::vector<load_step> steps;
    for (const auto& piece : pieces) {
        const auto& from = origin[piece.source];
        const uint64_t chunk_bytes = sources[from.source].image.chunk_bytes;
        uint64_t done = 0;
        while (done < piece.size_bytes) {
            const uint64_t at = piece.source_offset + done;
            const uint64_t chunk = at / chunk_bytes;
            const uint64_t size_bytes = std::min(piece.size_bytes - done, (chunk + 1) * chunk_bytes - at);
            if (steps.empty() || steps.back().source != from.source || steps.back().range != from.range ||
                steps.back().chunk_in_range != chunk) {
                steps.push_back({from.source, from.range, chunk, {}});
            }
            steps.back().copies.push_back(
                {piece.shard_index, piece.shard_offset + done, at - chunk * chunk_bytes, size_bytes});
            done += size_bytes;
        }
    }
    return steps;
}

load::load(store::run_directory& run, load_job job, sender send, logger& log)
    : run_(run), job_(std::move(job)), send_(std::move(send)), log_(log), lanes_(job_.targets.size()) {}

// Opens a pack again or for the first time.
result<unique_fd> load::open_file(uint32_t node_index, uint64_t* ret_file_bytes) const {
    auto fd = run_.open_pack(job_.id, node_index, job_.saved_node_count, ret_file_bytes);
    if (fd && io::ask_direct(fd->get()) == io::direct_answer::refused && !store::files::clear_direct(fd->get()))
        return os_error(errno, "couldn't take O_DIRECT off the pack of node " + std::to_string(node_index));
    return fd;
}

// Header and seal of one pack, checked against the file and against what was asked for.
result<load_source> load::open_source(uint32_t node_index) {
    load_source source;
    source.node_index = node_index;
    source.path =
        run_.path() + "/" + store::generation_name(job_.id) + "/" + store::pack_name(node_index, job_.saved_node_count);
    uint64_t file_bytes = 0;
    auto fd = open_file(node_index, &file_bytes);
    if (!fd)
        return fd.error().what == code::not_found ? fail(code::damaged, "'" + source.path + "' is missing")
                                                  : fd.error();
    auto head = store::read_pack_head(fd->get(), file_bytes, source.path);
    if (!head) return head.error();
    const auto& who = head->image.who;
    if (who.step != job_.id.step || who.incarnation != job_.id.incarnation || who.node_index != node_index ||
        who.node_count != job_.saved_node_count) {
        return fail(code::damaged, "'" + source.path + "' belongs to another generation or node: step " +
                                       std::to_string(who.step) + ", incarnation " + std::to_string(who.incarnation) +
                                       ", node " + std::to_string(who.node_index));
    }
    source.image = std::move(head->image);
    source.sums = std::move(head->sums);
    source.fd = std::move(*fd);
    return source;
}

// The ordinary restart: as many nodes and ranks as before, and ours are all in one pack.
bool load::pack_suffices(const load_source& mine) const {
    if (mine.image.who.world != job_.world) return false;
    return std::all_of(job_.targets.begin(), job_.targets.end(), [&](const load_target& target) {
        return std::any_of(mine.image.ranges.begin(), mine.image.ranges.end(),
                           [&](const auto& placed) { return placed.what.rank == target.wanted.rank; });
    });
}

// True: the pack of that node has all that our ranks want, and is the only one to read.
result<bool> load::open_one_source(uint32_t node_index) {
    auto source = open_source(node_index);
    if (!source) return source.error();
    if (!pack_suffices(*source)) return false;
    source->held = io::held_file(*engine_, source->fd.get());
    sources_.push_back(std::move(*source));
    return true;
}

result<void> load::open_sources() {
    if (job_.saved_node_count == job_.node_count) {
        // Where a spare has taken the place of a node that died, Slurm counts the nodes of the step anew: this one may
        // have another number than when it saved what it holds.
        const bool holds = job_.held.id == job_.id && job_.held.node_index < job_.saved_node_count;
        const uint32_t first = holds ? job_.held.node_index : job_.node_index;
        auto found = open_one_source(first);
        if (found && !*found && first != job_.node_index) found = open_one_source(job_.node_index);
        if (!found) return found.error();
        if (*found) return {};
    }
    for (uint32_t index = 0; index < job_.saved_node_count; index++) {
        auto source = open_source(index);
        if (!source) return source.error();
        source->fd.reset();
        sources_.push_back(std::move(*source));
    }
    return {};
}

result<void> load::make_lanes() {
    std::vector<pack::range> saved;
    std::vector<range_origin> origin;
    for (uint32_t source = 0; source < sources_.size(); source++) {
        const auto& image = sources_[source].image;
        place_bytes_ = std::max(place_bytes_, image.chunk_bytes);
        for (uint32_t range = 0; range < image.ranges.size(); range++) {
            saved.push_back(image.ranges[range].what);
            origin.push_back({source, range});
        }
    }
    for (size_t target = 0; target < lanes_.size(); target++) {
        const auto& wanted = job_.targets[target];
        auto pieces = pack::plan_restore(wanted.wanted, saved);
        if (!pieces) return pieces.error();
        auto steps = cut_into_steps(*pieces, origin, sources_);
        const uint64_t places = wanted.slab_bytes / place_bytes_;
        if (places == 0 && !steps.empty()) {
            return fail(code::no_memory, "the generation has chunks of " + format_bytes(place_bytes_) +
                                             ", a rank's slab has only " + format_bytes(wanted.slab_bytes) +
                                             "; raise --ckpt-memory");
        }
        for (const auto& step : steps) sources_[step.source].steps_left++;
        const std::lock_guard guard(mutex_);
        lanes_[target].steps = std::move(steps);
        lanes_[target].places.assign(places, holding::free);
        lanes_[target].step_in.assign(places, 0);
        lanes_[target].held = held_of(wanted, lanes_[target].steps);
        if (lanes_[target].held != nullptr)
            log_.info("rank " + std::to_string(wanted.wanted.rank) + " is restored from this node's memory");
    }
    return {};
}

// Only for the ordinary restart: the target wants its own range of one pack, and that is what its slab has.
const held_range* load::held_of(const load_target& target, const std::vector<load_step>& steps) const {
    if (job_.held.id != job_.id || sources_.size() != 1 || steps.empty()) return nullptr;
    const auto& image = sources_[0].image;
    for (const auto& held : job_.held.ranges) {
        if (held.rank != target.wanted.rank || held.slab != target.slab || job_.held.chunk_bytes != image.chunk_bytes ||
            held.place_count != target.slab_bytes / image.chunk_bytes || held.chunk_count > held.place_count)
            continue;
        const bool fits = std::all_of(steps.begin(), steps.end(), [&](const load_step& step) {
            return image.ranges[step.range].what.rank == held.rank && step.chunk_in_range < held.chunk_count;
        });
        return fits ? &held : nullptr;
    }
    return nullptr;
}

// Sends the target's next chunk from where the rank had staged it.
bool load::send_held(size_t target) {
    auto& way = lanes_[target];
    {
        const std::lock_guard guard(mutex_);
        if (!has_place(way)) return false;
    }
    const auto& step = way.steps[way.next];
    const auto place = static_cast<size_t>((way.held->first_chunk + step.chunk_in_range) % way.held->place_count);
    way.step_in[place] = way.next;
    if (verify_and_send(target, place)) {
        way.next++;
    } else {  // the rest is read, into places that no rank is copying from
        log_.info("the memory of step " + std::to_string(job_.id.step) +
                  " was overwritten since, the rest is read from storage");
        way.held = nullptr;
    }
    return true;
}

// Starts the target's next read if a place is free.
result<bool> load::submit_next(size_t target) {
    auto& way = lanes_[target];
    if (way.next == way.steps.size()) return false;
    if (way.held != nullptr) return send_held(target);
    size_t place = 0;
    {
        const std::lock_guard guard(mutex_);
        const auto free = std::find(way.places.begin(), way.places.end(), holding::free);
        if (free == way.places.end()) return false;
        *free = holding::reading;
        place = static_cast<size_t>(free - way.places.begin());
    }
    if (auto done = submit_read(target, place); !done) return done.error();
    return true;
}

result<void> load::submit_read(size_t target, size_t place) {
    auto& way = lanes_[target];
    const auto& step = way.steps[way.next];
    auto& source = sources_[step.source];
    if (!source.fd) {
        uint64_t file_bytes = 0;
        auto fd = open_file(source.node_index, &file_bytes);
        if (!fd) return fd.error();
        source.fd = std::move(*fd);
        source.held = io::held_file(*engine_, source.fd.get());
    }
    const auto where = pack::place_of_chunk(source.image, source.image.ranges[step.range], step.chunk_in_range);
    way.step_in[place] = way.next++;
    std::byte* to = job_.targets[target].slab + place * place_bytes_;
    return engine_->submit(
        {io::operation::read, source.fd.get(), to, where.size_bytes, where.file_offset, cookie_of(target, place)});
}

result<void> load::verify_and_send(size_t target, size_t place) {
    const auto& wanted = job_.targets[target];
    auto& step = lanes_[target].steps[lanes_[target].step_in[place]];
    auto& source = sources_[step.source];
    const auto where = pack::place_of_chunk(source.image, source.image.ranges[step.range], step.chunk_in_range);
    const std::span<const std::byte> bytes(wanted.slab + place * place_bytes_, where.size_bytes);
    auto good = pack::verify_chunk(bytes, source.sums[where.index], "'" + source.path + "'", where.index);
    if (!good) return good;
    if (--source.steps_left == 0) {  // a restart on other nodes reads from very many packs
        source.held = {};
        source.fd.reset();
    }
    (lanes_[target].held != nullptr ? memory_bytes_ : storage_bytes_) += where.size_bytes;
    for (auto& copy : step.copies) copy.place_offset += place * place_bytes_;
    {
        const std::lock_guard guard(mutex_);
        lanes_[target].places[place] = holding::sent;
    }
    send_(wanted.local_rank, {ticket_of(place), std::move(step.copies)});
    return {};
}

// Takes what has been read; waits for the first only where nothing else is to do.
result<void> load::collect() {
    const bool idle = arrived_.empty();
    auto completions = engine_->wait(idle ? 1 : 0, deadline::in_ms(idle ? look_ms : 0));
    if (!completions) return completions.error();
    for (const auto& done : *completions) {
        const auto target = static_cast<size_t>(done.cookie >> 32);
        const auto place = static_cast<size_t>(done.cookie & UINT32_MAX);
        const auto& step = lanes_[target].steps[lanes_[target].step_in[place]];
        const auto& source = sources_[step.source];
        const auto where = pack::place_of_chunk(source.image, source.image.ranges[step.range], step.chunk_in_range);
        if (done.os_errno == EINVAL) {
            // Read this one by hand, which also takes O_DIRECT off the file; those in flight beside it end here too.
            if (auto read =
                    store::files::read_exactly(source.fd.get(), job_.targets[target].slab + place * place_bytes_,
                                               where.size_bytes, where.file_offset, source.path);
                !read)
                return read;
        } else if (done.os_errno != 0) {
            return os_error(done.os_errno, "couldn't read '" + source.path + "'");
        } else if (done.bytes != where.size_bytes) {
            return fail(code::damaged, "'" + source.path + "' ends within chunk " + std::to_string(where.index));
        }
        arrived_.push_back({target, place});
    }
    return {};
}

result<void> load::verify_next() {
    const arrival next = arrived_.front();
    arrived_.pop_front();
    return verify_and_send(next.target, next.place);
}

bool load::all_taken() const {
    return std::all_of(lanes_.begin(), lanes_.end(), [](const lane& way) {
        return way.next == way.steps.size() &&
               std::all_of(way.places.begin(), way.places.end(), [](holding what) { return what == holding::free; });
    });
}

// What is held needs no place; some chunks at a time, so that it shows when a rank takes no more.
bool load::has_place(const lane& way) {
    if (way.held == nullptr) return std::find(way.places.begin(), way.places.end(), holding::free) != way.places.end();
    return std::count(way.places.begin(), way.places.end(), holding::sent) < held_at_a_time;
}

// Is there a chunk to send and a place for it?
bool load::can_read() const {
    return std::any_of(lanes_.begin(), lanes_.end(),
                       [](const lane& way) { return way.next < way.steps.size() && has_place(way); });
}

// Nothing can be read before a rank has taken a chunk; it may have done so since we looked.
result<void> load::wait_for_ranks() {
    std::unique_lock lock(mutex_);
    const bool moved = changed_.wait_for(lock, std::chrono::milliseconds(job_.rank_wait_ms),
                                         [&] { return cancelled_ || can_read() || all_taken(); });
    if (!moved) return fail(code::timeout, "a rank took no data for " + format_duration(job_.rank_wait_ms / 1000));
    return {};
}

result<void> load::run_lanes() {
    for (;;) {
        {
            const std::lock_guard guard(mutex_);
            if (cancelled_) return fail(code::unavailable, "a rank ended while it was being restored");
            if (engine_->in_flight() == 0 && all_taken()) return {};
        }
        bool any = false;
        for (size_t target = 0; target < lanes_.size() && !engine_->full(); target++) {
            auto submitted = submit_next(target);
            if (!submitted) return submitted.error();
            any = any || *submitted;
        }
        if (any && !engine_->full()) continue;
        if (engine_->in_flight() > 0) {
            if (auto done = collect(); !done) return done;
        } else if (arrived_.empty()) {
            if (auto done = wait_for_ranks(); !done) return done;
        }
        if (!arrived_.empty()) {
            if (auto done = verify_next(); !done) return done;
        }
    }
}

result<void> load::carry_out(io::engine& engine) {
    engine_ = &engine;
    auto done = open_sources();
    if (done) done = make_lanes();
    if (done) done = run_lanes();
    // Reads in flight still write into the slabs.
    settle_transfers(*engine_, log_, run_.path() + "/" + store::generation_name(job_.id));
    sources_.clear();  // on this thread: the engine, which holds their files, is its own
    if (done)
        log_.info("step " + std::to_string(job_.id.step) + " loaded: " + format_bytes(memory_bytes_) +
                  " from this node's memory, " + format_bytes(storage_bytes_) + " from storage");
    return done;
}

// A ticket of an earlier attempt, or of a chunk that was never sent, frees nothing: its place may be filled right now.
void load::taken(uint32_t local_rank, uint64_t ticket) {
    {
        const std::lock_guard guard(mutex_);
        for (size_t target = 0; target < lanes_.size(); target++) {
            auto& places = lanes_[target].places;
            const uint64_t place = ticket & UINT32_MAX;
            if (job_.targets[target].local_rank != local_rank || ticket >> 32 != job_.attempt || place >= places.size())
                continue;
            if (places[place] == holding::sent) places[place] = holding::free;
        }
    }
    changed_.notify_all();
}

void load::cancel() {
    {
        const std::lock_guard guard(mutex_);
        cancelled_ = true;
    }
    changed_.notify_all();
}

}  // namespace varde::agent
