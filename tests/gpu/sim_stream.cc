// Streams: a thread each, which works through its queue once what an operation comes after has ended.
#include "sim.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace varde::sim {

namespace {

bool may_begin(const CUstream_st& on) {
    if (on.queue.empty() || on.owner->hangs_after == 0) return false;
    return std::all_of(on.queue.front().after.begin(), on.queue.front().after.end(),
                       [](const auto& each) { return each.first->ended >= each.second; });
}

void copy_part(const operation& what, size_t begin, size_t end) {
    if (what.source != nullptr) std::memcpy(what.target + begin, what.source + begin, end - begin);
    if (what.source == nullptr && what.target != nullptr) std::memset(what.target + begin, what.value, end - begin);
}

void perform(const operation& what, std::chrono::microseconds duration) {
    if (what.function != nullptr) return what.function(what.argument);
    if (what.target == nullptr) return;
    copy_part(what, 0, what.size / 2);
    std::this_thread::sleep_for(duration);
    copy_part(what, what.size / 2, what.size);
}

void work(CUstream_st* on) {
    machine& all = the();
    std::minstd_rand random(static_cast<unsigned>(reinterpret_cast<uintptr_t>(on)));
    std::unique_lock lock(all.mutex);
    for (;;) {
        all.news.wait(lock, [&] { return all.stopping || may_begin(*on) || (on->closing && on->queue.empty()); });
        if (all.stopping || on->queue.empty()) return;
        const operation what = std::move(on->queue.front());
        on->queue.pop_front();
        CUctx_st& gpu = *on->owner;
        if (gpu.lost == success) {
            const uint64_t latency = all.latency_us + random() % (all.latency_us + 1);
            const std::chrono::microseconds duration(latency + what.size * 1'000'000 / all.bytes_per_s);
            lock.unlock();
            perform(what, duration);
            lock.lock();
        }
        if (gpu.lost == success && gpu.lost_after != UINT64_MAX && gpu.lost_after-- == 0) gpu.lost = gpu.lost_with;
        if (gpu.hangs_after != UINT64_MAX) gpu.hangs_after -= gpu.hangs_after > 0 ? 1 : 0;
        for (allocation* each : what.uses) each->busy--;
        on->ended = what.number;
        all.news.notify_all();
    }
}

}  // namespace

CUstream_st* add_stream(CUctx_st* owner, bool blocking) {
    machine& all = the();
    CUstream_st& made = all.streams.emplace_back();
    made.owner = owner;
    made.blocking = blocking;
    made.worker = std::thread(work, &made);
    return &made;
}

CUstream_st* stream_of(CUstream_st* handle, const char* function) {
    CUctx_st* const here = current();
    if (handle == nullptr || handle == legacy_stream()) {
        if (here->legacy == nullptr) here->legacy = add_stream(here, false);
        return here->legacy;
    }
    if (!handle->alive || handle->owner != here) {
        the().violation(std::string(function) + (handle->alive ? ": a stream of another context" : ": a dead stream"));
        return nullptr;
    }
    return handle;
}

void enqueue(CUstream_st* on, operation what) {
    machine& all = the();
    const bool legacy = on == on->owner->legacy;
    for (CUstream_st& each : all.streams)
        if (legacy && each.owner == on->owner && each.blocking) what.after.emplace_back(&each, each.issued);
    if (on->blocking && on->owner->legacy != nullptr)
        what.after.emplace_back(on->owner->legacy, on->owner->legacy->issued);
    for (allocation* each : what.uses) each->busy++;
    what.number = ++on->issued;
    on->queue.push_back(std::move(what));
    all.news.notify_all();
}

void wait_for(std::unique_lock<std::mutex>& lock, CUstream_st* on, uint64_t number) {
    the().news.wait(lock, [&] { return on->ended >= number; });
}

}  // namespace varde::sim

using namespace varde::sim;

extern "C" {

status cuStreamCreateWithPriority(stream* made, unsigned flags, int) {
    const std::lock_guard lock(the().mutex);
    if (const auto why = begin_call("cuStreamCreateWithPriority")) return why;
    *made = add_stream(current(), (flags & stream_non_blocking) == 0);
    return success;
}

status cuStreamDestroy_v2(stream which) {
    std::unique_lock lock(the().mutex);
    const auto why = begin_call("cuStreamDestroy_v2");
    if (current() == nullptr || stream_of(which, "cuStreamDestroy_v2") == nullptr) return invalid_handle;
    which->alive = false;
    which->closing = true;
    the().news.notify_all();
    lock.unlock();
    which->worker.join();
    return why;
}

status cuStreamGetCtx(stream which, context* found) {
    const std::lock_guard lock(the().mutex);
    const bool special = which == nullptr || which == legacy_stream();
    if (const auto why = begin_call("cuStreamGetCtx", special)) return why;
    *found = special ? current() : which->owner;
    return special || which->alive ? success : invalid_handle;
}

status cuStreamIsCapturing(stream which, unsigned* found) {
    const std::lock_guard lock(the().mutex);
    if (const auto why = begin_call("cuStreamIsCapturing")) return why;
    CUstream_st* const on = stream_of(which, "cuStreamIsCapturing");
    if (on == nullptr) return invalid_handle;
    for (const CUstream_st& each : the().streams)
        if (on == on->owner->legacy && each.owner == on->owner && each.blocking && each.capturing)
            return capture_implicit;
    *found = on->capturing ? 1 : capture_none;
    return success;
}

status cuStreamSynchronize(stream which) {
    std::unique_lock lock(the().mutex);
    if (const auto why = begin_call("cuStreamSynchronize")) return why;
    CUstream_st* const on = stream_of(which, "cuStreamSynchronize");
    if (on == nullptr) return invalid_handle;
    operation mark;
    enqueue(on, mark);
    wait_for(lock, on, on->issued);
    return on->owner->lost;
}

status cuLaunchHostFunc(stream which, void (*function)(void*), void* argument) {
    const std::lock_guard lock(the().mutex);
    if (const auto why = begin_call("cuLaunchHostFunc")) return why;
    CUstream_st* const on = stream_of(which, "cuLaunchHostFunc");
    if (on == nullptr) return invalid_handle;
    operation what;
    what.function = function;
    what.argument = argument;
    enqueue(on, std::move(what));
    return success;
}

status cuEventCreate(event* made, unsigned) {
    const std::lock_guard lock(the().mutex);
    if (const auto why = begin_call("cuEventCreate")) return why;
    the().events.push_back({current(), true, nullptr, 0});
    *made = &the().events.back();
    return success;
}

status cuEventDestroy_v2(event which) {
    const std::lock_guard lock(the().mutex);
    const auto why = begin_call("cuEventDestroy_v2");
    if (!which->alive) the().violation("cuEventDestroy_v2: a dead event");
    which->alive = false;
    return why;
}

status cuEventRecord(event which, stream where) {
    const std::lock_guard lock(the().mutex);
    if (const auto why = begin_call("cuEventRecord")) return why;
    CUstream_st* const on = stream_of(where, "cuEventRecord");
    if (on == nullptr || !which->alive || which->owner != on->owner) return invalid_handle;
    if (on->capturing) the().violation("cuEventRecord: on a stream that captures a graph");
    enqueue(on, {});
    which->on = on;
    which->number = on->issued;
    return success;
}

status cuEventQuery(event which) {
    const std::lock_guard lock(the().mutex);
    if (const auto why = begin_call("cuEventQuery")) return why;
    if (!which->alive) the().violation("cuEventQuery: a dead event");
    if (which->owner->lost != success) return which->owner->lost;
    for (const CUstream_st& each : the().streams)
        if (each.capturing && capture_mode != capture_mode_relaxed) {
            the().violation("cuEventQuery: spoils a graph that is being captured");
            return capture_unsupported;
        }
    return which->on == nullptr || which->on->ended >= which->number ? success : not_ready;
}

}  // extern "C"
