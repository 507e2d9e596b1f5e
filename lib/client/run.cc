// Opening, restoring, saving.
#include "client/run.h"

#include "base/limits.h"
#include "client/connect.h"
#include "client/embedded.h"
#include "client/numa.h"
#include "client/restore.h"
#include "client/shared_part.h"
#include "varde.h"

#include <algorithm>
#include <cerrno>
#include <unistd.h>

namespace varde::client {

namespace {

constexpr int look_again_ms =
    200;  // varde_wait: a lost wake-up, or a copy that fails meanwhile, costs no more than this
constexpr uint64_t dead_socket_ms = 5000;  // the prolog's agent may just be starting

struct reached_agent {
    unique_fd socket;
    std::string path;
};

// The agent that was named, or the prolog's, or one of our own.
result<reached_agent> reach_agent(const settings& with, environment get, const process_facts& facts, deadline until) {
    if (!with.socket.empty()) {
        auto socket = connect_to(with.socket, until);
        if (!socket) return std::move(socket).error();
        return reached_agent{std::move(*socket), with.socket};
    }
    if (!with.job_id.empty()) {
        const std::string path = "/run/varde/" + with.job_id + "/agent.sock";
        const auto patience_ends = deadline::in_ms(dead_socket_ms);
        for (;;) {
            auto socket = connect_to(path, until);
            if (socket) return reached_agent{std::move(*socket), path};
            if (socket.error().what == code::not_found) break;
            if (socket.error().what != code::unavailable) return std::move(socket).error();
            // Its listener is dead; the parent process that held it is not restarted by anybody.
            if (patience_ends.passed()) break;
            ::usleep(50'000);
        }
    }
    auto own = embedded_connect(with.where.launch, facts.host, get, until);
    if (!own) {
        failure why = std::move(own).error();
        if (!with.job_id.empty())
            why.context += "; the prolog's agent of job " + with.job_id +
                           " is not there either: in a container, mount /run/varde/" + with.job_id;
        return why;
    }
    return reached_agent{std::move(own->socket), own->path};
}

// Of the GPU that the program has chosen already, else of its CPUs.
std::optional<int> wanted_numa_node() {
    const auto driver = gpu::loaded_driver();
    const auto bus_id = driver && *driver ? gpu::current_bus_id(**driver) : std::nullopt;
    const auto node = bus_id ? numa_node_of_pci(*bus_id) : std::nullopt;
    return node ? node : own_numa_node();
}

arena::hello hello_of(const settings& with) {
    arena::hello body;
    body.rank = with.where.rank;
    body.world = with.where.world;
    body.local_rank = with.where.local_rank;
    body.local_count = with.where.local_count;
    body.node_index = with.where.node_index;
    body.node_count = with.where.node_count;
    body.launch = with.where.launch;
    body.directory = with.directory;
    body.name = with.name;
    body.interval_s = with.interval_s;
    body.keep = with.keep;
    body.restart = with.restart;
    body.max_restarts = with.max_restarts;
    if (with.batch) body.batch = with.in_place ? arena::batch_in_place : arena::batch_requeue;
    body.hang_timeout = with.hang_timeout;
    body.numa_node = wanted_numa_node().value_or(-1);
    return body;
}

bool sound(const arena::welcome& body) noexcept {
    return body.chunk_bytes >= limits::chunk_bytes_min && body.chunk_bytes <= limits::chunk_bytes_max &&
           body.chunk_bytes % limits::page_bytes == 0 && body.slab_bytes % body.chunk_bytes == 0 &&
           body.slab_bytes / body.chunk_bytes >= 2 && body.slab_offset % limits::page_bytes == 0 &&
           body.slab_offset <= body.arena_bytes && body.slab_bytes <= body.arena_bytes - body.slab_offset;
}

}  // namespace

run::run(const settings& with, const patience& times, progress_page& progress)
    : with_(with), times_(times), progress_(progress), gpus_(times.ring_ms), shards_(with.where.rank, gpus_) {}

run::~run() {
    progress_.live = &progress_.nobody;
    link_.stop();
    hands_.wait();
    if (gpus_.adrift()) slab_.release();  // a GPU may still copy from it or to it
}

result<std::unique_ptr<run>> run::open(const settings& with, environment get, const process_facts& facts,
                                       const patience& times, progress_page& progress) {
    const auto until = deadline::in_ms(times.open_ms);
    auto agent = reach_agent(with, get, facts, until);
    if (!agent) {
        failure why = std::move(agent).error();
        if (why.what == code::not_found) why.what = code::unavailable;
        return why;
    }
    const arena::hello hello = hello_of(with);
    auto welcome = shake_hands(agent->socket.get(), hello, until, -1);
    if (!welcome) {
        failure why = std::move(welcome).error();
        if (why.what == code::timeout) why.what = code::unavailable;
        return why;
    }
    std::unique_ptr<run> made(new run(with, times, progress));
    if (auto mapped = made->map(*welcome); !mapped) return std::move(mapped).error();
    link::beginning beginning;
    beginning.socket = std::move(agent->socket);
    beginning.path = agent->path;
    beginning.hello = hello;
    beginning.welcome = &*welcome;
    beginning.node = arena::node_of(made->node_page_.data());
    beginning.rank = reinterpret_cast<arena::rank_control*>(made->rank_page_.data());
    beginning.rest = std::move(welcome->rest);
    beginning.retry = times.retry;
    if (auto started = made->link_.start(std::move(beginning)); !started) return std::move(started).error();
    progress.live = reinterpret_cast<arena::rank_control*>(made->rank_page_.data());
    return made;
}

result<void> run::map(const greeting& welcome) {
    if (!sound(welcome.body))
        return fail(code::invalid,
                    "the agent offers memory that makes no sense; libvarde and varde-agent must be of one release");
    chunk_bytes_ = welcome.body.chunk_bytes;
    auto node_page = shared_part::map(welcome.control.get(), 0, limits::page_bytes);
    if (!node_page) return std::move(node_page).error();
    auto rank_page = shared_part::map(welcome.control.get(),
                                      (1 + uint64_t{with_.where.local_rank}) * limits::page_bytes, limits::page_bytes);
    if (!rank_page) return std::move(rank_page).error();
    auto slab = shared_part::map(welcome.arena.get(), welcome.body.slab_offset, welcome.body.slab_bytes);
    if (!slab) return std::move(slab).error();
    node_page_ = std::move(*node_page);
    rank_page_ = std::move(*rank_page);
    slab_ = std::move(*slab);
    auto* node = arena::node_of(node_page_.data());
    if (node->magic != arena::control_magic || node->version != arena::control_version)
        return fail(code::invalid, "the agent's memory is laid out for version " + std::to_string(node->version) +
                                       ", this library's is " + std::to_string(arena::control_version) +
                                       "; use libvarde and varde-agent of one release");
    const ring_memory ring{{slab_.data(), slab_.size_bytes()},
                           chunk_bytes_,
                           reinterpret_cast<arena::rank_control*>(rank_page_.data()),
                           node};
    copier_.emplace(hands_, gpus_, ring, times_.ring_ms);
    return {};
}

// From here on nothing of the shared memory is believed or written any more.
failure run::poison(failure why) {
    progress_.live = &progress_.nobody;
    if (!poisoned_) {
        poisoned_ = why;
        link_.stop();  // the agent sees the end of this rank and does not wait for its chunks
    }
    return why;
}

result<void> run::add(pack::shard what, std::byte* data) { return shards_.add(std::move(what), data); }

result<void> run::remove(std::string_view name) {
    discard(fence(), "the copying has ended either way, and the failure stays to be asked for by varde_wait");
    return shards_.remove(name);
}

result<void> run::order_after(void* stream) {
    auto done = gpus_.order_after(stream);
    if (done) return done;
    return fail(done.error().what, "couldn't order copies after a CUDA stream: " + done.error().context);
}

// From here on copies come after what the program has enqueued on its GPUs.
result<void> run::order_copies() {
    gpus_.pin({slab_.data(), slab_.size_bytes()});
    return gpus_.order();
}

result<const arranged_range*> run::announce_layout() {
    auto layout = shards_.arranged();
    if (!layout || (*layout)->version == announced_version_) return layout;
    std::string frame = arena::frame_of(arena::layout{(*layout)->version, (*layout)->range.shards});
    if (frame.size() > limits::message_bytes_max)
        return fail(code::invalid, "couldn't tell the agent of " + std::to_string((*layout)->range.shards.size()) +
                                       " tensors: their names and shapes have " + std::to_string(frame.size()) +
                                       " bytes, more than " + std::to_string(limits::message_bytes_max) +
                                       "; use shorter names or join small tensors");
    copier_->set_range(**layout);
    link_.send_layout(std::move(frame));
    announced_version_ = (*layout)->version;
    return layout;
}

result<uint64_t> run::restore() {
    if (poisoned_) return *poisoned_;
    if (restored_)
        return fail(code::invalid,
                    "couldn't restore: this run has restored already; call varde_restore once, before training");
    if (auto good = link_.health(); !good && good.error().what != code::unavailable) return std::move(good).error();
    const uint32_t threads = crew::sensible_size(with_.copy_threads, !gpus_.none());
    if (auto hired = hands_.hire(threads, cpus_near(slab_.data())); !hired) return std::move(hired).error();
    const auto layout = announce_layout();
    if (!layout) return layout.error();
    auto ordered = order_copies();
    if (ordered) ordered = gpus_.await_order();
    if (!ordered) return fail(ordered.error().what, "couldn't restore: " + ordered.error().context);
    auto done = restore_from(link_, {hands_, gpus_}, **layout, {slab_.data(), slab_.size_bytes()}, times_.restore_ms);
    link_.end_work();
    if (!done) return end_restore(std::move(done).error());
    restored_ = true;
    counters_.restored_step = done->step;
    counters_.incarnation = done->incarnation;
    return done->step;
}

// The agent may come back; whatever else ended a restore ends the run: a refusal, or a chunk that was not taken.
failure run::end_restore(failure why) {
    const bool passing = why.what == code::unavailable || why.what == code::timeout;
    return passing && !gpus_.adrift() ? why : poison(std::move(why));
}

result<void> run::check_save(uint64_t step) {
    if (poisoned_) return *poisoned_;
    if (!restored_)
        return fail(code::invalid, "couldn't save step " + std::to_string(step) +
                                       ": call varde_restore first, also on the first start");
    if (step == 0)
        return fail(code::invalid, "couldn't save step 0: steps count from 1, the number of optimizer steps done");
    const uint64_t last = std::max(counters_.saved_step, counters_.restored_step);
    if (step <= last)
        return fail(code::invalid, "couldn't save step " + std::to_string(step) + ": the last one was " +
                                       std::to_string(last) + ", steps must grow");
    if (arena::node_of(node_page_.data())->fenced.load() != 0)
        return fail(code::fenced, "couldn't save step " + std::to_string(step) +
                                      ": a newer start of this run exists, so this one writes no more");
    if (auto good = link_.health(); !good)
        return fail(good.error().what, "couldn't save step " + std::to_string(step) + ": " + good.error().context +
                                           "; this generation is skipped, training may go on");
    return {};
}

result<void> run::save(uint64_t step) {
    discard(fence(), "how the last generation went is told by varde_wait; this one is a new one");
    const uint64_t begun_ns = mono_ns();
    auto* rank = progress_.live.load();
    if (step > rank->progress_step.load(std::memory_order_relaxed))
        rank->progress_step.store(step, std::memory_order_release);
    if (auto good = check_save(step); !good) return good;
    const auto layout = announce_layout();
    if (!layout) return layout.error();
    const auto first = copier_->next_chunk();
    if (!first)
        return first.error().what == code::internal
                   ? poison(first.error())
                   : fail(first.error().what, "couldn't save step " + std::to_string(step) + ": " +
                                                  first.error().context +
                                                  "; this generation is skipped, training may go on");
    if (auto ordered = order_copies(); !ordered)
        return fail(ordered.error().what, "couldn't save step " + std::to_string(step) + ": " +
                                              ordered.error().context +
                                              "; this generation is skipped, training may go on");
    rank->saving_step.store(step, std::memory_order_release);
    link_.begin_save(arena::frame_of(arena::save{step, announced_version_, *first, copier_->chunk_count()}), step);
    copier_->begin();
    copying_bytes_ = (*layout)->range.size_bytes;
    given_up_.reset();
    counters_.saved_step = step;
    counters_.saves++;
    generation_stall_ns_ = 0;
    charge(begun_ns);
    return {};
}

void run::charge(uint64_t since_ns) {
    const uint64_t spent = mono_ns() - since_ns;
    counters_.stall_ns += spent;
    generation_stall_ns_ += spent;
    counters_.stall_ns_max = std::max(counters_.stall_ns_max, generation_stall_ns_);
    progress_.live.load()->stall_ns.store(generation_stall_ns_, std::memory_order_relaxed);
}

// Ends the copying; where it failed, the agent is told that this generation will not come.
result<void> run::settle() {
    auto copied = copier_->wait();
    if (copied) {
        counters_.staged_bytes += copying_bytes_;
        return copied;
    }
    const uint64_t step = counters_.saved_step;
    counters_.failed_step = step;
    failure why = copied.error();
    why.context = "couldn't save step " + std::to_string(step) + ": " + why.context +
                  (gpus_.adrift() ? "; the copy may still come, so this run saves no more; training may go on"
                                  : "; this generation is given up, training may go on");
    given_up_ = why;
    if (why.what == code::internal || gpus_.adrift()) return poison(std::move(why));
    if (auto good = link_.health(); !good) why.what = given_up_->what = good.error().what;
    link_.give_up(step, copier_->next_after_skip());
    return why;
}

result<void> run::fence() {
    if (!copier_->begun()) return {};
    const uint64_t begun_ns = mono_ns();
    auto settled = settle();
    charge(begun_ns);
    return settled;
}

result<void> run::wait(uint64_t timeout_ms) {
    if (poisoned_) return *poisoned_;
    const uint64_t step = counters_.saved_step;
    if (step == 0) return {};
    const auto until = deadline::in_ms(timeout_ms);
    auto* node = arena::node_of(node_page_.data());
    for (;;) {
        const uint32_t seen = node->news.load(std::memory_order_acquire);
        if (copier_->begun() && copier_->failed())
            if (auto settled = fence(); !settled) return settled;
        if (given_up_) return *given_up_;
        // What is complete has been copied: the fence is free, and makes that certain to the caller's memory too.
        if (node->complete_step.load(std::memory_order_acquire) >= step) return fence();
        if (node->failed_step.load(std::memory_order_acquire) >= step)
            return fail(code::io, "couldn't complete step " + std::to_string(step) +
                                      ": it was given up on a node; the reason is in the log of "
                                      "its agent, in '" +
                                      with_.directory + "/" + with_.name + "/log'");
        if (node->fenced.load(std::memory_order_acquire) != 0)
            return fail(code::fenced,
                        "couldn't complete step " + std::to_string(step) + ": a newer start of this run exists");
        if (until.passed())
            return fail(code::timeout, "step " + std::to_string(step) + " is not complete yet after " +
                                           std::to_string(timeout_ms) + " ms");
        arena::wait_while(node->news, seen, until.left_ms(look_again_ms));
    }
}

result<void> run::close() {
    auto settled = fence();
    if (!poisoned_) link_.say_bye(deadline::in_ms(times_.bye_ms));
    link_.stop();
    return settled;
}

counters run::status() const {
    counters now = counters_;
    now.pinned_bytes = gpus_.pinned_bytes();
    now.pin_error = gpus_.pin_error();
    if (poisoned_) return now;
    const auto* node = arena::node_of(node_page_.data());
    now.complete_step = node->complete_step.load(std::memory_order_acquire);
    now.failed_step = std::max(now.failed_step, node->failed_step.load(std::memory_order_acquire));
    return now;
}

}  // namespace varde::client
