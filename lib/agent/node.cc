// Ranks: hello, layout, bye, death.
#include "agent/node.h"

#include "arena/wire.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/units.h"

#include <algorithm>
#include <sys/syscall.h>
#include <unistd.h>

namespace varde::agent {

namespace {

// Ranks of an ended start may take some seconds to disappear; a new start waits so long for them.
constexpr uint64_t hello_wait_ns = 45 * ns_per_s;
constexpr uint64_t old_pulse_ms = 100;  // an idle pulse ends at once
// Transfers in flight, chunks of 4 MiB each.  `bench depths` says, in GB/s written and synced / read
// on a virtual disk, median of 5:
//   in flight         4            8           16           32           64
//      1 MiB  1.85 / 1.50  1.77 / 1.47  1.91 / 1.47  1.96 / 1.46  1.94 / 1.47
//      4 MiB  2.03 / 1.49  2.04 / 1.47  1.95 / 1.47  1.99 / 1.45  1.96 / 1.46
//     16 MiB  1.99 / 1.54  1.93 / 1.53  1.93 / 1.52  1.95 / 1.49  1.97 / 1.49
// A local disk is busy with any of them.  128 MiB in flight are for storage that is far away: 10 ms of 12 GB/s.
constexpr uint32_t engine_depth = 32;
constexpr uint64_t places_wanted = 8;  // chunks per slab below which chunks are made smaller

}  // namespace

node::node(settings with, node_memory& memory, ledger& records, inbox& main, logger& log)
    : begun_wall_ns_(wall_ns()), with_(std::move(with)), memory_(memory), ledger_(records), main_(main), log_(log),
      slurm_(with_.slurm_bin, with_.job_id), alone_since_ns_(mono_ns()) {
    mover_.post([this] {
        discard(static_cast<int>(engine_on_mover().in_flight()), "made now, so that the first work finds it");
    });
}

node::~node() = default;

// On the mover, before its first work: registering buffers faults in the whole arena, and ranks must not wait for that
// to say hello.
io::engine& node::engine_on_mover() {
    if (engine_ != nullptr && !engine_->is_broken()) return *engine_;
    engine_.reset();
    io::engine_options options;
    options.depth = engine_depth;
    options.buffers = {{memory_.arena.data(), memory_.arena.size_bytes()}};
    auto engine = io::engine::open(options);
    if (!engine) {  // it falls back by itself; what is left is a mistake of ours, and plain writes still work
        log_.error(engine.error().context);
        options.use_ring = false;
        options.buffers.clear();
        engine = io::engine::open(options);
    }
    engine_ = std::make_unique<io::engine>(std::move(*engine));
    if (engine_->fell_back()) log_.warning("transfers use " + engine_->description());
    return *engine_;
}

uint64_t node::chunk_bytes() const {
    const uint64_t slab_bytes = memory_.arena.size_bytes() / std::max(1U, facts_.local_count);
    const uint64_t fitting = slab_bytes / places_wanted / limits::page_bytes * limits::page_bytes;
    return std::clamp(fitting, limits::chunk_bytes_min, with_.chunk_bytes);
}

arena::slab_place node::slab_of(uint32_t rank) const {
    const uint32_t slab = slabs_[rank].value_or(rank);
    return arena::place_slab(memory_.arena.size_bytes(), chunk_bytes(), slab, facts_.local_count);
}

// Near the rank's GPU or CPUs, if one is left there.
void node::give_slab(uint32_t rank, int numa_node) {
    std::vector<int> nodes;
    for (uint32_t slab = 0; slab < facts_.local_count; slab++) {
        const auto place = arena::place_slab(memory_.arena.size_bytes(), chunk_bytes(), slab, facts_.local_count);
        nodes.push_back(numa_node_at(with_.parts, place.offset + place.size_bytes / 2));
    }
    slabs_[rank] = choose_slab(nodes, slabs_, rank, numa_node);
}

void node::put_record(record kind, uint32_t rank, const std::string& value) {
    // Without its record a restarted worker knows less; this worker goes on all the same.
    if (auto done = ledger_.put(kind, rank, value); !done) log_.error(done.error().context);
}

bool node::everyone_present() const {
    return !ranks_.empty() &&
           std::all_of(ranks_.begin(), ranks_.end(), [](const local_rank& rank) { return rank.present; });
}

bool node::everyone_done() const {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [](const local_rank& rank) { return !rank.present || rank.left || rank.gone; });
}

bool node::start_is_over() const {
    return stage_ == stage::idle || (everyone_done() && works_.empty() && load_ == nullptr);
}

void node::refuse(link& to, code what, const std::string& text) {
    log_.warning("refused a rank: " + text);
    to.send_message(arena::refused{what, text});
}

void node::refuse_all(code what, const std::string& text) {
    start_.refusal = {what, text};  // also for ranks that come later
    stage_ = stage::refused;
    for (auto& rank : ranks_) {
        if (rank.wire != nullptr) refuse(*rank.wire, what, text);
    }
}

result<void> node::on_frame(link& from, const arena::frame& what) {
    using arena::message;
    if (what.type == message::batch_exit) return on_batch_exit(from, what);
    if (what.type == message::no_nodes) return on_no_nodes(what);
    if (what.type == message::hello) {
        auto facts = arena::decode<arena::hello>(what.payload);
        return facts ? on_hello(from, *facts) : facts.error();
    }
    if (from.local_rank < 0) return fail(code::invalid, "a message came before hello");
    const auto rank = static_cast<uint32_t>(from.local_rank);
    switch (what.type) {
    case message::layout: {
        auto body = arena::decode<arena::layout>(what.payload);
        return body ? on_layout(rank, std::move(*body)) : body.error();
    }
    case message::restore: {
        auto body = arena::decode<arena::restore>(what.payload);
        if (!body) return body.error();
        if (!ranks_[rank].range || body->layout_version != ranks_[rank].layout_version)
            return fail(code::invalid, "restore came without its layout");
        ranks_[rank].wants_restore = true;
        if (stage_ == stage::refused) refuse(from, start_.refusal.what, start_.refusal.text);
        if (stage_ == stage::training) answer_late_restore(from, rank);
        return {};
    }
    case message::chunk_taken: {
        auto body = arena::decode<arena::chunk_taken>(what.payload);
        if (!body) return body.error();
        if (load_ != nullptr) load_->taken(rank, body->ticket);
        return {};
    }
    case message::save: {
        if (stage_ != stage::training) return fail(code::invalid, "a save came before the restore was done");
        auto body = arena::decode<arena::save>(what.payload);
        return body ? on_save(rank, *body) : body.error();
    }
    case message::give_up: {
        auto body = arena::decode<arena::give_up>(what.payload);
        return body ? on_give_up(rank, *body) : body.error();
    }
    case message::bye: return on_bye(rank);
    default: return fail(code::invalid, "unexpected message " + std::to_string(static_cast<int>(what.type)));
    }
}

// A worker before this one may not have come to tell a rank that everything is loaded.  A process that is new has
// nothing of it, and the others train already.
void node::answer_late_restore(link& to, uint32_t rank) {
    if (ranks_[rank].facts.again) return to.send_message(arena::restored{start_.restored_step, mine_.incarnation});
    refuse(to, code::invalid,
           "'" + facts_.launch + "' has restored already, and this process of rank " +
               std::to_string(ranks_[rank].facts.rank) +
               " came later; end the other ranks and start all of them anew (a new srun, or another VARDE_LAUNCH)");
}

// The same start again, after all its ranks have ended: a loop around the program, or a run that is opened anew.  Where
// there are other nodes, their ranks may still train.
bool node::is_repeated(const arena::hello& facts) const {
    return !facts.again && facts_.node_count == 1 && facts.launch == facts_.launch && !ranks_.empty() &&
           everyone_done();
}

result<void> node::check_hello(const arena::hello& facts) const {
    if (facts.local_count == 0 || facts.local_count > limits::local_ranks_max ||
        facts.local_rank >= facts.local_count) {
        return fail(code::invalid, "local rank " + std::to_string(facts.local_rank) + " of " +
                                       std::to_string(facts.local_count) + " makes no sense");
    }
    if (facts.node_count == 0 || facts.node_count > limits::nodes_max || facts.node_index >= facts.node_count) {
        return fail(code::invalid, "node " + std::to_string(facts.node_index) + " of " +
                                       std::to_string(facts.node_count) + " makes no sense");
    }
    if (facts.world == 0 || facts.world > limits::world_max || facts.rank >= facts.world) {
        return fail(code::invalid,
                    "rank " + std::to_string(facts.rank) + " of " + std::to_string(facts.world) + " makes no sense");
    }
    if (facts.directory.empty() || facts.directory[0] != '/')
        return fail(code::invalid, "the directory '" + facts.directory + "' is not absolute");
    return check_run_name(facts.name);
}

result<void> node::on_hello(link& from, const arena::hello& facts) {
    // One connection is one rank: were it two, the first would be left with a connection that is gone.
    if (from.local_rank >= 0) return fail(code::invalid, "hello came twice on one connection");
    if (auto good = check_hello(facts); !good) {
        refuse(from, code::invalid, good.error().context);
        return {};
    }
    if (stopping_) {
        refuse(from, code::unavailable, "this node's agent is ending with its job");
        return {};
    }
    if (stage_ != stage::idle && (facts.launch != facts_.launch || is_repeated(facts))) {  // on_tick() looks after it
        if (waiting_hellos_.empty()) waiting_since_ns_ = mono_ns();
        waiting_hellos_.emplace_back(&from, facts);
        return {};
    }
    if (stage_ == stage::refused) refuse(from, start_.refusal.what, start_.refusal.text);
    else welcome_rank(from, facts);
    return {};
}

// A new start is let in when the old one's ranks are gone and what they staged is written.
void node::serve_waiting_hellos() {
    if (waiting_hellos_.empty()) return;
    if (start_is_over()) {
        auto waiting = std::move(waiting_hellos_);
        waiting_hellos_.clear();
        stage_ = stage::idle;
        for (auto& [from, facts] : waiting) {
            if (auto done = on_hello(*from, facts); !done) refuse(*from, done.error().what, done.error().context);
        }
    } else if (mono_ns() - waiting_since_ns_ > hello_wait_ns) {
        for (auto& [from, facts] : waiting_hellos_) {
            refuse(*from, code::busy,
                   "'" + facts_.launch + "' has the run '" + facts_.name + "' open on this node; wait for its end");
        }
        waiting_hellos_.clear();
    }
}

void node::begin_start(const arena::hello& facts) {
    start_number_++;
    facts_ = facts;
    ranks_.clear();
    ranks_.resize(facts.local_count);
    if (slabs_.size() != facts.local_count) slabs_.assign(facts.local_count, std::nullopt);
    works_.clear();
    seen_.clear();
    restart_.reset();
    schedule_.reset();
    load_.reset();
    start_ = {};
    mine_ = {};
    run_ = nullptr;
    log_fd_ = -1;
    if (pulse_ != nullptr && !pulse_->stop(old_pulse_ms))
        discard(pulse_.release() != nullptr, "it hangs in dead storage and must live on");
    pulse_.reset();
    for (uint32_t rank = 0; rank < facts.local_count; rank++) {
        auto* control = control_of(rank);
        control->due_step = control->released = control->progress_step = control->saving_step = control->staged = 0;
        control->stall_ns = 0;
    }
    auto* shared = node_control();
    shared->fenced = 0;
    shared->complete_step = shared->failed_step = 0;
    if (auto done = ledger_.clear(); !done) log_.error(done.error().context);
    stage_ = stage::opening;
    start_.hello_wall_ns = wall_ns();
    open_run();
}

void node::welcome_rank(link& from, const arena::hello& facts) {
    if (stage_ == stage::idle) begin_start(facts);
    const auto same = [&](const arena::hello& other) {
        return other.local_count == facts.local_count && other.node_index == facts.node_index &&
               other.node_count == facts.node_count && other.world == facts.world &&
               other.directory == facts.directory && other.name == facts.name;
    };
    if (!same(facts_)) {
        refuse(from, code::invalid,
               "rank " + std::to_string(facts.rank) +
                   " disagrees with the other ranks of this node about the run, its "
                   "directory, or the numbers of ranks and nodes");
        return;
    }
    auto& rank = ranks_[facts.local_rank];
    if (rank.present && !facts.again && rank.wire != nullptr) {
        refuse(from, code::busy,
               "local rank " + std::to_string(facts.local_rank) + " is there already (pid " + std::to_string(rank.pid) +
                   ")");
        return;
    }
    if (!rank.present) give_slab(facts.local_rank, facts.numa_node);
    const auto slab = slab_of(facts.local_rank);
    if (slab.size_bytes == 0) {
        refuse(from, code::no_memory,
               "the arena of " + format_bytes(memory_.arena.size_bytes()) + " is too small for " +
                   std::to_string(facts.local_count) + " ranks; raise --ckpt-memory");
        return;
    }
    if (rank.wire != nullptr) rank.wire->local_rank = -1;  // its old connection, about to be closed
    // Also one that died in this start and was started again: the ring goes on where its rank has stopped.
    if (!facts.again) {
        rank.next_chunk = control_of(facts.local_rank)->staged.load();
        rank.saved_step = 0;
        rank.wants_restore = false;
    }
    rank.present = true;
    rank.gone = rank.left = false;
    rank.facts = facts;
    rank.pid = from.peer_pid();
    rank.wire = &from;
    rank.process.reset(static_cast<int>(::syscall(SYS_pidfd_open, rank.pid, 0)));
    rank.ended_ns = 0;
    processes_version_++;
    from.local_rank = static_cast<int>(facts.local_rank);
    put_record(record::hello, facts.local_rank, arena::encode(facts));
    arena::wire_writer peer;
    peer.number(static_cast<int32_t>(rank.pid));
    peer.number(*slabs_[facts.local_rank]);
    put_record(record::peer, facts.local_rank, peer.bytes());

    const std::array<int, 2> fds{memory_.control_fd.get(), memory_.arena_fd.get()};
    from.send(arena::frame_of(arena::welcome{chunk_bytes(), memory_.arena.size_bytes(), slab.offset, slab.size_bytes}),
              &fds);
}

result<void> node::on_layout(uint32_t rank, arena::layout what) {
    auto arranged = pack::arrange(ranks_[rank].facts.rank, std::move(what.shards));
    if (!arranged) return arranged.error();
    ranks_[rank].layout_version = what.version;
    ranks_[rank].range = std::move(*arranged);
    put_record(record::layout, rank, arena::encode(arena::layout{what.version, ranks_[rank].range->shards}));
    return {};
}

result<void> node::on_bye(uint32_t rank) {
    ranks_[rank].left = true;
    if (ranks_[rank].wire != nullptr) {
        ranks_[rank].wire->send_message(arena::bye{});
        ranks_[rank].wire->local_rank = -1;
        ranks_[rank].wire = nullptr;
    }
    look_for_late();
    return {};
}

void node::on_closed(link& from) {
    std::erase_if(waiting_hellos_, [&](const auto& waiting) { return waiting.first == &from; });
    if (batch_link_ == &from) batch_link_ = nullptr;
    if (from.local_rank < 0) return;
    const auto rank = static_cast<uint32_t>(from.local_rank);
    if (ranks_[rank].wire == &from) {
        ranks_[rank].wire = nullptr;
        rank_is_gone(rank);
    }
}

void node::on_rank_ended(uint32_t rank) {
    ranks_[rank].process.reset();
    processes_version_++;
    // Its last words may still be in the socket, and their end says the same: on_tick() looks after a connection that
    // stays open, because a forked child holds it.
    ranks_[rank].ended_ns = mono_ns();
    if (ranks_[rank].wire == nullptr) rank_is_gone(rank);
}

// What it has staged whole is written all the same; what it has not can never become complete.
void node::rank_is_gone(uint32_t rank) {
    if (ranks_[rank].left || ranks_[rank].gone) return;
    ranks_[rank].gone = true;
    if (mine_.rank_gone_wall_ns == 0) mine_.rank_gone_wall_ns = wall_ns();
    beat();  // whose ranks failed first is asked for at once
    log_.warning("rank " + std::to_string(ranks_[rank].facts.rank) + " (pid " + std::to_string(ranks_[rank].pid) +
                 ") has ended without closing the run");
    if (load_ != nullptr) load_->cancel();
    const uint64_t staged = control_of(rank)->staged.load(std::memory_order_acquire);
    for (auto& work : works_) {
        const auto& save = work->saves[rank];
        if (save && staged < save->first_chunk + save->chunk_count) work->job.cancelled = true;
    }
    look_for_late();
}

std::vector<std::pair<int, uint32_t>> node::watched_processes() const {
    std::vector<std::pair<int, uint32_t>> found;
    for (uint32_t rank = 0; rank < ranks_.size(); rank++) {
        if (ranks_[rank].process) found.emplace_back(ranks_[rank].process.get(), rank);
    }
    return found;
}

}  // namespace varde::agent
