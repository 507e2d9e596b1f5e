// The engine: slots for requests, and what is done with the answers.  See engine.h.
//
// Each request has a slot from submit() to its completion.  With a ring the kernel works on all of them at once;
// without, they wait in order for wait() to carry them out.
#include "io/engine.h"

#include "base/limits.h"
#include "io/ring.h"
#include "io/transfer.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

namespace varde::io {

struct engine::state {
    std::vector<pending> slots;
    std::vector<uint32_t> free;   // slots, the last is next
    std::vector<uint32_t> queue;  // without a ring: slots in the order of submit(), from `first`, round
    uint32_t first = 0;
    uint32_t queued = 0;
    std::vector<completion> finished;  // of the current wait()
    std::unique_ptr<ring> kernel;      // null: plain calls
    std::string description;
    bool fell_back = false;
    int broken_errno = 0;

    uint32_t in_flight() const noexcept { return static_cast<uint32_t>(slots.size() - free.size()); }
    void finish(uint32_t slot, int os_errno) noexcept;
    void take_answers() noexcept;
    result<void> wait_for_kernel(uint32_t least, deadline until);
    void carry_out(uint32_t least, deadline until) noexcept;
    failure broken(const char* consequence) const;
    result<void> end_broken(deadline until);
};

void engine::state::finish(uint32_t slot, int os_errno) noexcept {
    finished.push_back({slots[slot].wanted.cookie, os_errno, slots[slot].bytes_done});  // reserved: no more than slots
    free.push_back(slot);
}

// Room for a completion is sure: `finished` is empty when wait() begins, and no request is accepted during it.
void engine::state::take_answers() noexcept {
    answer got;
    while (kernel->pop(got)) {
        int os_errno = 0;
        pending& request = slots[got.slot];
        if (advance(request, got.bytes_or_errno, &os_errno) == progress::again) kernel->push(request, got.slot);
        else finish(got.slot, os_errno);
    }
}

result<void> engine::state::wait_for_kernel(uint32_t least, deadline until) {
    while (true) {
        take_answers();
        const uint32_t missing = finished.size() < least ? least - static_cast<uint32_t>(finished.size()) : 0;
        const uint32_t count = std::min(missing, in_flight());
        const bool sleeps = count > 0 && !until.passed();
        const int refused = sleeps ? kernel->flush_and_wait(count, until) : kernel->flush();
        if (refused != 0 && refused != ETIME) broken_errno = refused;
        if (broken_errno != 0) return broken("stop() waits for what is in flight");
        if (!sleeps) return {};
    }
}

void engine::state::carry_out(uint32_t least, deadline until) noexcept {
    while (queued > 0 && (finished.empty() || (finished.size() < least && !until.passed()))) {
        const uint32_t slot = queue[first];
        first = (first + 1) % static_cast<uint32_t>(queue.size());
        --queued;
        const completion done = transfer(slots[slot].wanted);
        slots[slot].bytes_done = done.bytes;
        finish(slot, done.os_errno);
    }
}

// Always `io`, whatever the number: `timeout` would say that something is still in flight.
failure engine::state::broken(const char* consequence) const {
    failure why = os_error(broken_errno, "io_uring is broken, " + std::string(consequence) + ": io_uring_enter");
    why.what = code::io;
    return why;
}

// A ring that takes nothing more still answers what the kernel has begun, and those answers lie in shared memory: they
// need no call.  What the kernel has never taken ends with the ring.
result<void> engine::state::end_broken(deadline until) {
    constexpr auto look_time = std::chrono::milliseconds(2);
    while (kernel) {
        answer got;
        while (kernel->pop(got)) free.push_back(got.slot);
        const uint32_t begun = in_flight() - kernel->unsubmitted();
        if (begun == 0) break;
        if (until.passed())
            return fail(code::timeout, std::to_string(begun) + " transfers of a broken io_uring have not ended");
        std::this_thread::sleep_for(look_time);
    }
    kernel.reset();
    free.clear();
    for (uint32_t slot = 0; slot < slots.size(); ++slot) free.push_back(slot);
    return broken("nothing is in flight");
}

namespace {

result<void> check(const engine_options& wanted) {
    if (wanted.depth == 0 || wanted.depth > depth_max)
        return fail(code::invalid, "a depth of " + std::to_string(wanted.depth) + " requests is not between 1 and " +
                                       std::to_string(depth_max));
    std::vector<std::span<std::byte>> sorted = wanted.buffers;
    std::sort(sorted.begin(), sorted.end(), [](auto a, auto b) { return std::less<>()(a.data(), b.data()); });
    const std::byte* end = nullptr;
    for (const std::span<std::byte> one : sorted) {
        if (reinterpret_cast<uintptr_t>(one.data()) % limits::page_bytes != 0 || one.size() % limits::page_bytes != 0)
            return fail(code::invalid,
                        "a buffer to register is not aligned to " + std::to_string(limits::page_bytes) + " bytes");
        if (end != nullptr && std::less<>()(one.data(), end))
            return fail(code::invalid, "two buffers to register overlap");
        end = one.data() + one.size();
    }
    return {};
}

std::string describe(const result<void>& buffers, const result<void>& files, size_t buffer_count) {
    std::string text = "io_uring";
    if (!buffers) text += ", buffers not registered: " + buffers.error().context;
    else if (buffer_count > 0)
        text +=
            ", " + std::to_string(buffer_count) + (buffer_count == 1 ? " registered buffer" : " registered buffers");
    if (!files) text += ", files not registered: " + files.error().context;
    return text;
}

}  // namespace

result<engine> engine::open(const engine_options& wanted) {
    if (const result<void> sensible = check(wanted); !sensible) return sensible.error();
    auto made = std::make_unique<state>();
    made->slots.resize(wanted.depth);
    made->finished.reserve(wanted.depth);
    for (uint32_t slot = wanted.depth; slot > 0; --slot) made->free.push_back(slot - 1);
    made->description = "pwrite (io_uring not wanted)";
    if (wanted.use_ring) {
        result<std::unique_ptr<ring>> kernel = ring::open(wanted.depth + 1);  // and a cancellation
        if (kernel) made->kernel = std::move(*kernel);
        else made->description = "pwrite (io_uring refused: " + kernel.error().context + ")";
        made->fell_back = !kernel;
    }
    if (!made->kernel) {
        made->queue.resize(wanted.depth);
        return engine(std::move(made));
    }
    const result<void> buffers = made->kernel->register_buffers(wanted.buffers);
    const result<void> files = made->kernel->register_files(held_files_max);
    made->fell_back = !buffers || !files;
    made->description = describe(buffers, files, made->kernel->registered_count());
    return engine(std::move(made));
}

const std::string& engine::description() const noexcept { return state_->description; }
bool engine::fell_back() const noexcept { return state_->fell_back; }
bool engine::is_broken() const noexcept { return state_->broken_errno != 0; }
bool engine::full() const noexcept { return state_->free.empty(); }
uint32_t engine::in_flight() const noexcept { return state_->in_flight(); }

void engine::hold_file(int fd) noexcept {
    if (state_->kernel) discard(state_->kernel->hold_file(fd), "its transfers go by the descriptor");
}
void engine::drop_file(int fd) noexcept {
    if (state_->kernel) state_->kernel->drop_file(fd);
}

result<void> engine::submit(const request& wanted) {
    state& own = *state_;
    if (wanted.data == nullptr || wanted.size_bytes == 0 || wanted.size_bytes > request_bytes_max ||
        wanted.offset > INT64_MAX - request_bytes_max)
        return fail(code::invalid, "a transfer of " + std::to_string(wanted.size_bytes) + " bytes at " +
                                       std::to_string(wanted.offset) + " is impossible");
    if (own.broken_errno != 0) return own.broken("it takes nothing more");
    if (own.free.empty()) return fail(code::busy, "full");
    const uint32_t slot = own.free.back();
    own.free.pop_back();
    own.slots[slot] = {wanted, 0, 0};
    if (!own.kernel) {
        own.queue[(own.first + own.queued++) % own.queue.size()] = slot;
        return {};
    }
    own.kernel->push(own.slots[slot], slot);
    if (const int refused = own.kernel->flush(); refused != 0)
        own.broken_errno = refused;  // wait() says so; the request is accepted
    return {};
}

result<std::span<const completion>> engine::wait(uint32_t least, deadline until) {
    state& own = *state_;
    own.finished.clear();
    if (own.broken_errno != 0) return own.broken("stop() waits for what is in flight");
    if (own.kernel) {
        if (const result<void> waited = own.wait_for_kernel(least, until); !waited) return waited.error();
    } else {
        own.carry_out(least, until);
    }
    return std::span<const completion>(own.finished);
}

result<void> engine::stop(deadline until) {
    state& own = *state_;
    if (own.kernel && own.broken_errno == 0 && own.in_flight() > 0) own.kernel->cancel_all();
    if (!own.kernel) {  // nothing has been begun: nothing needs to end
        while (own.queued > 0) {
            own.free.push_back(own.queue[own.first]);
            own.first = (own.first + 1) % static_cast<uint32_t>(own.queue.size());
            --own.queued;
        }
    }
    while (own.broken_errno == 0 && own.in_flight() > 0) {
        discard(wait(own.in_flight(), until), "fails only for a broken ring, which is dealt with below");
        if (own.broken_errno == 0 && own.in_flight() > 0 && until.passed())
            return fail(code::timeout,
                        std::to_string(own.in_flight()) + " transfers have not ended; the storage does not answer");
    }
    if (own.broken_errno != 0) return own.end_broken(until);
    return {};
}

engine::engine(std::unique_ptr<state> made) noexcept : state_(std::move(made)) {}
engine::engine(engine&&) noexcept = default;
engine& engine::operator=(engine&& other) noexcept {
    if (this == &other) return *this;
    engine old(std::move(*this));  // ends as any other
    state_ = std::move(other.state_);
    return *this;
}
engine::~engine() {
    if (state_)
        discard(stop(deadline::in_ms(destroy_wait_ms)),
                "see stop(): the caller has been told to call it where it matters");
}

}  // namespace varde::io
