// Streams and events of one context.  A wait asks again and again, because only so it can end: the driver's own waits
// have no time limit, and a GPU that hangs would hang us.
#include "gpu/device.h"

#include <algorithm>
#include <ctime>

namespace varde::gpu {

namespace {

constexpr uint64_t pause_ns_min = 50'000;  // the kernel's timers are no finer
constexpr uint64_t pause_ns_max = ns_per_ms;

// success, not_ready after the deadline, or an error.  Sleeps for a quarter of what it has waited already, so no wait
// is much longer than needed and a long one costs no CPU.
cuda::status ask_until(const cuda::driver& with, cuda::event which, deadline until) noexcept {
    const uint64_t begun_ns = mono_ns();
    for (;;) {
        const auto now = with.event_query(which);
        if (now != cuda::not_ready || until.passed()) return now;
        const timespec pause{0, static_cast<long>(std::clamp((mono_ns() - begun_ns) / 4, pause_ns_min, pause_ns_max))};
        discard(::nanosleep(&pause, nullptr), "the next look is only earlier");
    }
}

}  // namespace

failure gpu_error(const cuda::driver& with, cuda::ordinal which, const char* call, cuda::status why) {
    return cuda_error(with, why, "GPU " + std::to_string(which) + ": " + call + " failed");
}

result<std::unique_ptr<device>> device::open(const cuda::driver& with, const location& where, bool retained) {
    std::unique_ptr<device> made(new device(with, where, retained));
    if (auto opened = made->open_stream(); !opened) return std::move(opened).error();
    return made;
}

result<void> device::open_stream() {
    const inside here(with_, context_);
    if (here.entered() != cuda::success) return error("cuCtxPushCurrent", here.entered());
    int least = 0;
    int greatest = 0;
    // Training goes first; a GPU without priorities answers 0 and 0.
    discard(static_cast<int>(with_.context_priorities(&least, &greatest)), "all streams are equal then");
    // Non-blocking: what the program enqueues on its default stream does not wait for our copies.
    const auto why = with_.stream_create(&stream_, cuda::stream_non_blocking, least);
    if (why != cuda::success) return error("cuStreamCreateWithPriority", why);
    const auto made = with_.event_create(&ordered_.event, cuda::event_disable_timing);
    if (made != cuda::success) return error("cuEventCreate", made);
    return {};
}

device::~device() {
    if (context_ == nullptr) return;
    {
        const inside here(with_, context_);
        if (here.entered() == cuda::success) {
            for (const marker each : free_)
                discard(static_cast<int>(with_.event_destroy(each.event)), "with the context it goes anyway");
            if (ordered_.event != nullptr)
                discard(static_cast<int>(with_.event_destroy(ordered_.event)), "with the context it goes anyway");
            if (stream_ != nullptr)
                discard(static_cast<int>(with_.stream_destroy(stream_)), "with the context it goes anyway");
        }
    }
    if (retained_) discard(static_cast<int>(with_.primary_release(ordinal_)), "a lost GPU has none any more");
}

bool device::is_at(const location& where) const noexcept {
    return where.context != nullptr ? where.context == context_ : retained_ && where.ordinal == ordinal_;
}

result<void> device::order() {
    if (const auto why = lost_.load(); why != cuda::success) return error("copying", why);
    const inside here(with_, context_);
    if (here.entered() != cuda::success) return error("cuCtxPushCurrent", here.entered());
    unsigned capturing = cuda::capture_none;
    auto why = with_.stream_is_capturing(program_, &capturing);
    // Marking it would make our event part of the program's graph, or spoil the graph.
    if (why == cuda::capture_implicit || (why == cuda::success && capturing != cuda::capture_none))
        return fail(code::invalid, "GPU " + std::to_string(ordinal_) +
                                       ": a CUDA graph is being captured on the program's stream; call after its end");
    if (why != cuda::success) return error("cuStreamIsCapturing", why);
    why = with_.event_record(ordered_.event, program_);
    if (why != cuda::success) return error("cuEventRecord", why);
    return {};
}

result<void> device::await_order(deadline until) {
    auto waited = await(ordered_, until);
    if (waited || waited.error().what != code::timeout) return waited;
    return fail(code::timeout, "GPU " + std::to_string(ordinal_) +
                                   ": the program's work before it has not ended in time; the GPU hangs, or waits for "
                                   "another rank's");
}

cuda::status device::record(marker which) noexcept {
    const inside here(with_, context_);
    return here.entered() == cuda::success ? with_.event_record(which.event, stream_) : here.entered();
}

cuda::status device::ask(marker which, deadline until) noexcept {
    const inside here(with_, context_);
    return here.entered() == cuda::success ? ask_until(with_, which.event, until) : here.entered();
}

// A call may tell of another's failure, once.  What fails again is the context: it runs nothing any more.
result<void> device::mark(marker which) {
    if (record(which) == cuda::success) return {};
    const auto again = record(which);
    if (again == cuda::success) return {};
    lost_ = again;
    return error("cuEventRecord", again);
}

result<void> device::await(marker which, deadline until) {
    const auto why = ask(which, until);
    if (why == cuda::success) return {};
    const auto again = why == cuda::not_ready ? why : ask(which, until);
    if (again == cuda::not_ready)
        return fail(code::timeout, "GPU " + std::to_string(ordinal_) + ": a copy has not ended in time; the GPU hangs");
    if (again != cuda::success) lost_ = again;
    return error("copying", why);
}

result<marker> device::take() {
    {
        const std::lock_guard lock(mutex_);
        if (!free_.empty()) {
            const marker taken = free_.back();
            free_.pop_back();
            return taken;
        }
    }
    const inside here(with_, context_);
    if (here.entered() != cuda::success) return error("cuCtxPushCurrent", here.entered());
    marker made;
    const auto why = with_.event_create(&made.event, cuda::event_disable_timing);
    if (why != cuda::success) return error("cuEventCreate", why);
    const std::lock_guard lock(mutex_);
    free_.reserve(++made_);  // so that giving it back takes no memory
    return made;
}

void device::give_back(marker unused) {
    const std::lock_guard lock(mutex_);
    free_.push_back(unused);
}

cuda::status device::copy_to_host(std::byte* target, const std::byte* source, uint64_t size_bytes) noexcept {
    return with_.copy_to_host(target, reinterpret_cast<cuda::pointer>(source), size_bytes, stream_);
}

cuda::status device::copy_to_device(std::byte* target, const std::byte* source, uint64_t size_bytes) noexcept {
    return with_.copy_to_device(reinterpret_cast<cuda::pointer>(target), source, size_bytes, stream_);
}

}  // namespace varde::gpu
