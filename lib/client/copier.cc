// The ring's writer.
#include "client/copier.h"

#include "base/clock.h"
#include "client/copy_bytes.h"
#include "gpu/flight.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace varde::client {

namespace {

constexpr int look_again_ms = 200;  // a lost wake-up costs no more than this

// body(source, its bytes to skip, where they go in `target`) for every piece of the cut; what is left of the target.
template <class Body>
std::span<std::byte> each_piece(std::span<const source> sources, uint64_t offset_bytes, std::span<std::byte> target,
                                Body body) {
    auto next = std::upper_bound(sources.begin(), sources.end(), offset_bytes, [](uint64_t at, const source& each) {
        return at < each.offset_bytes + each.size_bytes;
    });
    while (!target.empty() && next != sources.end()) {
        const uint64_t skip = offset_bytes - next->offset_bytes;
        const uint64_t size = std::min<uint64_t>(next->size_bytes - skip, target.size());
        if (size > 0) body(*next, skip, target.first(size));
        target = target.subspan(size);
        offset_bytes += size;
        ++next;
    }
    return target;
}

failure impossible_numbers() {
    return fail(code::internal,
                "couldn't use this rank's memory: the numbers in it that the agent writes make no sense; the training "
                "program or the agent has written where it must not");
}

}  // namespace

void assemble(std::span<const source> sources, uint64_t offset_bytes, std::span<std::byte> target) noexcept {
    const auto rest = each_piece(sources, offset_bytes, target,
                                 [](const source& from, uint64_t skip, std::span<std::byte> to) noexcept {
                                     if (from.by == nullptr) copy_bytes(to.data(), from.data + skip, to.size());
                                 });
    if (!rest.empty()) std::memset(rest.data(), 0, rest.size());
}

copier::copier(crew& hands, gpu::devices& gpus, const ring_memory& ring, uint64_t patience_ms)
    : hands_(hands), gpus_(gpus), ring_(ring), place_count_(ring.slab.size() / ring.chunk_bytes),
      patience_ms_(patience_ms), filled_(place_count_, 0) {
    // An earlier process of this rank may have used the ring; its numbers go on.
    next_ = ring.rank->staged.load(std::memory_order_acquire);
    published_ = next_;
    released_seen_ = ring.rank->released.load(std::memory_order_acquire);
    if (released_seen_ > next_) failed_ = static_cast<int>(code::internal);
}

void copier::set_range(const arranged_range& range) {
    sources_.clear();
    on_gpu_ = false;
    sources_.reserve(range.range.shards.size());
    for (size_t i = 0; i < range.range.shards.size(); i++) {
        on_gpu_ = on_gpu_ || range.data[i].by != nullptr;
        const pack::shard& shard = range.range.shards[i];
        sources_.push_back({range.data[i].data, shard.offset_bytes, shard.size_bytes, range.data[i].by});
    }
    size_bytes_ = range.range.size_bytes;
    chunk_count_ = pack::chunk_count(size_bytes_, ring_.chunk_bytes);
}

result<uint64_t> copier::next_chunk() {
    if (failed_ == static_cast<int>(code::internal)) return impossible_numbers();
    if (!skipping_) return next_;
    if (ring_.rank->staged.load(std::memory_order_acquire) != next_)
        return fail(code::unavailable, "the agent has not answered since the last generation was given up");
    published_ = next_;
    skipping_ = false;
    return next_;
}

void copier::begin() {
    std::fill(filled_.begin(), filled_.end(), uint8_t{0});
    failed_ = 0;
    gpu_why_.reset();
    first_ = next_;
    next_ = first_ + chunk_count_;
    copying_ = true;
    hands_.begin(chunk_count_, copy_one, this);
}

result<void> copier::wait() {
    if (!copying_) return {};
    hands_.wait();
    copying_ = false;
    const auto why = static_cast<code>(failed_.load());
    if (why == code::ok) return {};
    skipping_ = published_ != next_;
    return reason(why);
}

failure copier::reason(code why) const {
    if (gpu_why_) return *gpu_why_;
    if (why == code::internal) return impossible_numbers();
    if (why == code::no_memory) return fail(why, "there is no memory for the copying");
    if (why == code::fenced) return fail(why, "a newer start of this run exists, so this one writes no more");
    return fail(why, "the agent has released no memory for " + std::to_string(patience_ms_ / 1000) +
                         " s: the storage or the agent stalls");
}

// On a thread of ours in the training process: nothing is thrown out of here.
void copier::copy_one(void* self, uint64_t index) {
    auto& it = *static_cast<copier*>(self);
    try {
        it.copy(index);
    } catch (const std::bad_alloc&) { it.stop_with(code::no_memory); }
}

void copier::copy(uint64_t index) {
    const uint64_t number = first_ + index;
    if (auto ordered = gpus_.await_order(); !ordered) return stop_with(std::move(ordered).error());
    if (!wait_for_place(number)) return;
    const uint64_t offset = index * ring_.chunk_bytes;
    const uint64_t size = std::min(ring_.chunk_bytes, size_bytes_ - offset);
    const auto place = ring_.slab.subspan((number % place_count_) * ring_.chunk_bytes, size);
    if (auto filled = fill(offset, place); !filled) return stop_with(std::move(filled).error());
    publish(number);
}

// The host copies its part while the GPUs are at theirs.
result<void> copier::fill(uint64_t offset_bytes, std::span<std::byte> target) {
    gpu::flight copies(gpus_);
    if (on_gpu_)
        each_piece(sources_, offset_bytes, target, [&](const source& from, uint64_t skip, std::span<std::byte> to) {
            if (from.by != nullptr) copies.to_host(*from.by, to.data(), from.data + skip, to.size());
        });
    assemble(sources_, offset_bytes, target);
    return copies.land();
}

bool copier::wait_for_place(uint64_t number) {
    uint64_t last = UINT64_MAX;
    auto until = deadline::in_ms(patience_ms_);
    while (failed_.load(std::memory_order_relaxed) == 0) {
        const uint32_t news = ring_.rank->released_news.load(std::memory_order_acquire);
        // In this order: what another thread has seen before our load is a floor, what was published before the
        // agent's store a ceiling.
        const uint64_t floor = released_seen_.load(std::memory_order_acquire);
        const uint64_t released = ring_.rank->released.load(std::memory_order_acquire);
        const uint64_t ceiling = published_.load(std::memory_order_acquire);
        if (released < floor || released > ceiling) {
            stop_with(code::internal);
            return false;
        }
        uint64_t seen = floor;
        while (seen < released && !released_seen_.compare_exchange_weak(seen, released)) {}
        if (number - released < place_count_) return true;
        if (ring_.node->fenced.load(std::memory_order_relaxed) != 0) {
            stop_with(code::fenced);
            return false;
        }
        if (released != last) {
            last = released;
            until = deadline::in_ms(patience_ms_);
        } else if (until.passed()) {
            stop_with(code::timeout);
            return false;
        }
        arena::wait_while(ring_.rank->released_news, news, until.left_ms(look_again_ms));
    }
    return false;
}

void copier::publish(uint64_t number) {
    {
        const std::lock_guard lock(mutex_);
        filled_[number % place_count_] = 1;
        uint64_t end = published_;
        while (end < next_ && filled_[end % place_count_] != 0) filled_[end++ % place_count_] = 0;
        if (end == published_) return;
        published_ = end;
        ring_.rank->staged.store(end, std::memory_order_release);
    }
    arena::ring(ring_.node->doorbell);
}

void copier::stop_with(failure why) {
    const std::lock_guard lock(mutex_);
    const code what = why.what;
    if (failed_ == 0) gpu_why_ = std::move(why);
    stop_with(what);
}

void copier::stop_with(code why) noexcept {
    int none = 0;
    failed_.compare_exchange_strong(none, static_cast<int>(why));
}

}  // namespace varde::client
