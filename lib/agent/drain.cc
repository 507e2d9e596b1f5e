// Writing one pack.
#include "agent/drain.h"

#include "agent/transfers.h"
#include "base/clock.h"
#include "base/pages.h"
#include "base/units.h"
#include "io/direct.h"
#include "store/pack_head.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

namespace varde::agent {

namespace {

constexpr uint64_t cancelled_wait_ms = 2000;
constexpr uint64_t idle_wait_ms = 130'000;  // a rank gives up by itself after 120 s: this one died unseen
constexpr int look_ms = 50;                 // between looks for staged chunks and for a cancel

result<pages> page_copy(std::span<const std::byte> bytes) {
    auto copy = make_pages(bytes.size());
    if (copy) std::memcpy(copy->get(), bytes.data(), bytes.size());
    return copy;
}

// Cookies of the two transfers that are no chunk.
constexpr uint64_t header_cookie = UINT64_MAX;
constexpr uint64_t seal_cookie = UINT64_MAX - 1;

// The state of one attempt at one pack.
class writing {
public:
    writing(drain_job& job, io::engine& engine, io::pace& pace, arena::node_control* node, int fd)
        : job_(job), engine_(engine), pace_(pace), node_(node), fd_(fd), sums_(job.image.chunk_count, 0),
          next_(job.sources.size(), 0), written_(job.sources.size()), released_(job.sources.size(), 0) {
        for (size_t i = 0; i < job.sources.size(); i++) {
            if (!job.sources[i].held()) written_[i].resize(job.sources[i].chunk_count, false);
        }
    }

    result<void> write_header();
    result<void> write_chunks();
    result<uint64_t> write_seal();

private:
    result<void> submit(std::byte* data, uint64_t size_bytes, uint64_t offset, uint64_t cookie);
    result<bool> submit_chunk(size_t source);
    result<bool> submit_ready();
    result<void> collect(uint32_t least);
    deadline next_look() const;
    result<void> note(const io::completion& done);
    void release_in_order(size_t source, uint64_t chunk);

    drain_job& job_;
    io::engine& engine_;
    io::pace& pace_;
    arena::node_control* node_;
    int fd_;
    pages header_;
    pages seal_;
    std::vector<uint64_t> sums_;
    std::vector<uint64_t> next_;              // chunk to submit next, per source
    size_t turn_ = 0;                         // source to look at first
    std::vector<std::vector<bool>> written_;  // only for sources that are not held
    std::vector<uint64_t> released_;  // chunks of those; counted here, because a rank can damage its control page
    uint64_t chunks_written_ = 0;
};

result<void> writing::submit(std::byte* data, uint64_t size_bytes, uint64_t offset, uint64_t cookie) {
    while (engine_.full()) {
        if (job_.cancelled.load(std::memory_order_relaxed)) return fail(code::unavailable, "cancelled");
        if (auto done = collect(1); !done) return done;
    }
    return engine_.submit({io::operation::write, fd_, data, size_bytes, offset, cookie});
}

result<void> writing::write_header() {
    const auto& text = job_.image.header;
    auto copy = page_copy(std::as_bytes(std::span(text)));
    if (!copy) return copy.error();
    header_ = std::move(*copy);
    return submit(header_.get(), text.size(), 0, header_cookie);
}

// Submits the source's next chunk if the rank has staged it.
result<bool> writing::submit_chunk(size_t source) {
    const auto& from = job_.sources[source];
    const auto& range = job_.image.ranges[source];
    const uint64_t index = next_[source];
    if (index == from.chunk_count) return false;
    const uint64_t chunk = from.first_chunk + index;
    if (from.control->staged.load(std::memory_order_acquire) <= chunk) return false;

    const uint64_t begin = index * job_.image.chunk_bytes;
    const uint64_t size_bytes = std::min(job_.image.chunk_bytes, range.what.size_bytes - begin);
    std::byte* data = from.slab + (chunk % from.place_count) * job_.image.chunk_bytes;
    sums_[range.first_chunk + index] = pack::checksum({data, size_bytes});
    if (auto done = submit(data, size_bytes, range.file_offset + begin, range.first_chunk + index); !done)
        return done.error();
    next_[source]++;
    pace_.begun(size_bytes, mono_ns());
    return true;
}

// One chunk of each rank in turn, so that all slabs drain alike.
result<bool> writing::submit_ready() {
    bool any = false;
    for (size_t looked = 0; looked < job_.sources.size(); looked++) {
        if (engine_.full() || !pace_.open(mono_ns())) break;
        auto submitted = submit_chunk(turn_);
        if (!submitted) return submitted;
        any = any || *submitted;
        turn_ = (turn_ + 1) % job_.sources.size();  // also in the next round: a limit may end each one after a chunk
    }
    return any;
}

void writing::release_in_order(size_t source, uint64_t index) {
    auto& written = written_[source];
    if (written.empty()) return;  // held
    written[index] = true;
    const auto& from = job_.sources[source];
    const uint64_t before = released_[source];
    while (released_[source] < from.chunk_count && written[released_[source]]) released_[source]++;
    if (released_[source] != before) release(from, from.first_chunk + released_[source]);
}

result<void> writing::note(const io::completion& done) {
    if (done.os_errno != 0) return os_error(done.os_errno, "couldn't write");
    job_.bytes_done.fetch_add(done.bytes, std::memory_order_relaxed);
    if (done.cookie == header_cookie || done.cookie == seal_cookie) return {};
    chunks_written_++;
    for (size_t source = 0; source < job_.sources.size(); source++) {
        const uint64_t first = job_.image.ranges[source].first_chunk;
        if (done.cookie >= first && done.cookie < first + job_.sources[source].chunk_count) {
            release_in_order(source, done.cookie - first);
        }
    }
    return {};
}

deadline writing::next_look() const {
    const deadline usual = deadline::in_ms(look_ms);
    return pace_.open(mono_ns()) ? usual : deadline::at_ns(std::min(usual.ns(), pace_.next_ns()));
}

result<void> writing::collect(uint32_t least) {
    auto completions = engine_.wait(least, next_look());
    if (!completions) return completions.error();
    for (const auto& done : *completions) {
        if (auto noted = note(done); !noted) return noted;
    }
    return {};
}

result<void> writing::write_chunks() {
    deadline idle = deadline::in_ms(idle_wait_ms);
    while (chunks_written_ < job_.image.chunk_count) {
        if (idle.passed())
            return fail(code::timeout, "no rank has staged anything for " + format_duration(idle_wait_ms / 1000));
        if (job_.cancelled.load(std::memory_order_relaxed)) {
            return fail(code::unavailable, "a rank ended or gave up before its shards were staged");
        }
        const uint32_t seen = node_->doorbell.load(std::memory_order_acquire);
        auto any = submit_ready();
        if (!any) return any.error();
        if (*any || engine_.in_flight() > 0) idle = deadline::in_ms(idle_wait_ms);  // slow storage is no silent rank
        if (engine_.in_flight() > 0) {
            // With room in the engine only look; wait for a completion where nothing else can be done.
            if (auto done = collect(*any && !engine_.full() ? 0 : 1); !done) return done;
        } else if (!*any) {
            arena::wait_while(node_->doorbell, seen, next_look().left_ms());
        }
    }
    return {};
}

// The seal: its checksums are of bytes that have all been handed over.
result<uint64_t> writing::write_seal() {
    const auto bytes = pack::make_seal(job_.image, sums_);
    auto copy = page_copy(bytes);
    if (!copy) return copy.error();
    seal_ = std::move(*copy);
    if (auto done = submit(seal_.get(), bytes.size(), job_.image.seal_offset, seal_cookie); !done) return done.error();
    while (engine_.in_flight() > 0) {
        if (job_.cancelled.load(std::memory_order_relaxed)) return fail(code::unavailable, "cancelled");
        if (auto done = collect(1); !done) return done.error();
    }
    return pack::checksum(bytes);
}

}  // namespace

void release(const drain_source& source, uint64_t released) noexcept {
    source.control->released.store(released, std::memory_order_release);
    arena::ring(source.control->released_news);
}

void discard_chunks(const drain_source& source, const std::atomic<bool>& cancelled) {
    const uint64_t end = source.end_chunk();
    // After a cancel the rank is gone, or gives up within moments: its last word need not be waited for long.
    deadline until = deadline::in_ms(cancelled_wait_ms);
    deadline idle = deadline::in_ms(idle_wait_ms);
    while (source.control->released.load(std::memory_order_relaxed) < end) {
        const uint64_t staged = std::min(source.control->staged.load(std::memory_order_acquire), end);
        if (staged > source.control->released.load(std::memory_order_relaxed)) {
            release(source, staged);
            idle = deadline::in_ms(idle_wait_ms);
        }
        if (!cancelled.load(std::memory_order_relaxed)) until = deadline::in_ms(cancelled_wait_ms);
        if (staged == end || until.passed() || idle.passed()) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(look_ms));
    }
}

void drain::release_all(drain_job& job) {
    for (const auto& source : job.sources) {
        if (source.control->released.load(std::memory_order_relaxed) < source.end_chunk())
            release(source, source.end_chunk());
    }
}

void drain::note_direct_refused(const std::string& path) {
    direct_refused_ = true;
    log_.warning("the file system of '" + path + "' refuses O_DIRECT writes, writing through the page cache");
}

// The pack that a worker before this one has sealed, and died before it could note that, or could sync the name.
result<uint64_t> drain::sealed_before(drain_job& job) {
    const auto& who = job.image.who;
    uint64_t file_bytes = 0;
    const auto file = run_.open_pack(job.id, who.node_index, who.node_count, &file_bytes);
    if (!file) return file.error();
    const std::string path =
        run_.path() + "/" + store::generation_name(job.id) + "/" + store::pack_name(who.node_index, who.node_count);
    const auto head = store::read_pack_head(file->get(), file_bytes, path);
    if (!head) return head.error();
    if (head->image.header_checksum != job.image.header_checksum)
        return fail(code::busy, "couldn't write '" + path + "': another pack is sealed under its name");
    if (auto synced = run_.sync_generation(job.id); !synced) return synced.error();
    job.bytes_done = file_bytes;
    return head->seal_checksum;
}

result<uint64_t> drain::write_once(drain_job& job, int attempt_number) {
    job.bytes_done = 0;
    auto file = run_.create_pack(job.id, job.image.who.node_index, job.image.who.node_count, job.image.file_bytes,
                                 static_cast<uint32_t>(attempt_number));
    if (!file && file.error().what == code::busy && attempt_number == 0) return sealed_before(job);
    if (!file) return file.error();
    if (file->detour())
        log_.warning("step " + std::to_string(job.id.step) + ": " + file->detour()->context + "; writing to '" +
                     file->path() + "'");
    if (file->direct() && !direct_refused_ && !io::takes_direct_writes(file->fd())) note_direct_refused(file->path());
    if (direct_refused_) {
        if (auto done = file->use_buffered(); !done) return done.error();
    }
    const io::held_file held(engine_, file->fd());

    writing attempt(job, engine_, pace_, node_, file->fd());
    result<uint64_t> seal = [&]() -> result<uint64_t> {
        if (auto done = attempt.write_header(); !done) return done.error();
        if (auto done = attempt.write_chunks(); !done) return done.error();
        return attempt.write_seal();
    }();
    if (!seal) {
        // The buffers of `attempt` and the slabs belong to the kernel until nothing is in flight.
        settle_transfers(engine_, log_, file->path());
        failure why = seal.error();
        if (why.os_errno == EINVAL && file->direct()) note_direct_refused(file->path());
        why.context = "'" + file->path() + "': " + why.context;
        return why;
    }
    if (job.cancelled.load(std::memory_order_relaxed)) return fail(code::unavailable, "cancelled before it was sealed");
    if (auto done = file->seal(); !done) return done.error();
    return *seal;
}

bool drain::may_retry(const drain_job& job, const failure& why, int attempt) const {
    const bool held =
        std::all_of(job.sources.begin(), job.sources.end(), [](const auto& source) { return source.held(); });
    if (!held || job.cancelled.load(std::memory_order_relaxed)) return false;
    if (why.os_errno == EINVAL && direct_refused_ && attempt == 0)
        return true;  // the next attempt goes through the page cache
    return attempt < static_cast<int>(job.retry_pause_ms.size()) &&
           (why.what == code::no_space || why.what == code::io);
}

drain_outcome drain::carry_out(drain_job& job) {
    const uint64_t start_ns = mono_ns();
    drain_outcome outcome;
    for (int attempt = 0;; attempt++) {
        auto seal = write_once(job, attempt);
        if (seal) {
            outcome.sealed = true;
            outcome.seal_checksum = *seal;
            break;
        }
        outcome.why = seal.error();
        if (!may_retry(job, outcome.why, attempt)) break;
        log_.warning("step " + std::to_string(job.id.step) + ": " + outcome.why.context + "; trying again from memory");
        // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): may_retry() refuses the attempt that has no pause
        const auto until =
            deadline::in_ms(outcome.why.os_errno == EINVAL ? 0 : job.retry_pause_ms[static_cast<size_t>(attempt)]);
        while (!until.passed() && !job.cancelled.load(std::memory_order_relaxed)) {
            std::this_thread::sleep_for(std::chrono::milliseconds(look_ms));
        }
    }
    outcome.duration_ns = mono_ns() - start_ns;
    if (outcome.sealed) release_all(job);
    else
        for (const auto& source : job.sources) discard_chunks(source, job.cancelled);
    return outcome;
}

}  // namespace varde::agent
