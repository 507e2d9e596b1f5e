// The simulated driver's contexts, and what tests do to it.
#include "sim.h"

#include <algorithm>
#include <cstdio>

namespace varde::sim {

thread_local std::vector<CUctx_st*> stack;
thread_local unsigned capture_mode = 0;

machine& the() {
    static machine one;
    return one;
}

machine::machine() {
    for (int i = 0; i < gpus; i++) contexts[i].ordinal = i;
}

machine::~machine() {
    {
        const std::lock_guard lock(mutex);
        stopping = true;
    }
    news.notify_all();
    for (CUstream_st& each : streams)
        if (each.worker.joinable()) each.worker.join();
}

CUctx_st* current() { return stack.empty() ? nullptr : stack.back(); }

status begin_call(const char* function, bool wants_context) {
    machine& all = the();
    all.calls[function]++;
    if (!all.initialised) return not_initialized;
    for (injection& each : all.injections) {
        if (each.function != function || each.nth == 0 || --each.nth > 0) continue;
        if (each.loses_gpu && current() != nullptr) current()->lost = each.what;
        return each.what;
    }
    if (!wants_context) return success;
    if (current() == nullptr) return invalid_context;
    if (current()->retains == 0) all.violation(std::string(function) + ": in a context that is gone");
    return current()->lost;
}

namespace {

void set_speed(uint64_t bytes_per_s, uint64_t latency_us) {
    const std::lock_guard lock(the().mutex);
    the().bytes_per_s = bytes_per_s;
    the().latency_us = latency_us;
}

void fail_call(const char* function, uint64_t nth, unsigned what, bool loses_gpu) {
    const std::lock_guard lock(the().mutex);
    the().injections.push_back({function, nth, what, loses_gpu});
}

void forget_failures() {
    const std::lock_guard lock(the().mutex);
    the().injections.clear();
}

void lose(int ordinal, unsigned what, uint64_t after_operations) {
    const std::lock_guard lock(the().mutex);
    CUctx_st& gpu = the().contexts[ordinal];
    gpu.lost_with = what;
    gpu.lost_after = after_operations;
    if (after_operations == 0) gpu.lost = what;
    the().news.notify_all();
}

void hang(int ordinal, uint64_t after_operations) {
    const std::lock_guard lock(the().mutex);
    the().contexts[ordinal].hangs_after = after_operations;
}

void let_go(int ordinal) {
    const std::lock_guard lock(the().mutex);
    the().contexts[ordinal].hangs_after = UINT64_MAX;
    the().news.notify_all();
}

void set_capturing(void* which, bool capturing) {
    const std::lock_guard lock(the().mutex);
    static_cast<CUstream_st*>(which)->capturing = capturing;
}

uint64_t calls(const char* function) {
    const std::lock_guard lock(the().mutex);
    return the().calls[function];
}

counts count() {
    machine& all = the();
    const std::lock_guard lock(all.mutex);
    counts now;
    for (const CUstream_st& each : all.streams) {
        now.streams += each.alive && each.owner->legacy != &each ? 1 : 0;
        now.pending += each.issued - each.ended;
    }
    for (const CUevent_st& each : all.events) now.events += each.alive ? 1 : 0;
    for (const allocation& each : all.allocations)
        if (each.size > 0) (each.registered ? now.registrations : now.allocations)++;
    for (const CUctx_st& each : all.contexts) now.retains += each.retains;
    now.depth = stack.size();
    return now;
}

const char* violations() {
    static std::string text;
    const std::lock_guard lock(the().mutex);
    text = the().violations;
    return text.c_str();
}

}  // namespace

}  // namespace varde::sim

using namespace varde::sim;

extern "C" {

const control* varde_sim_control() {
    static const control all{set_speed, fail_call,     forget_failures, lose,  hang,
                             let_go,    set_capturing, calls,           count, violations};
    return &all;
}

status cuInit(unsigned) {
    const std::lock_guard lock(the().mutex);
    the().initialised = true;
    return success;
}

status cuGetErrorName(status which, const char** name) {
    switch (which) {
    case success: *name = "CUDA_SUCCESS"; return success;
    case invalid_value: *name = "CUDA_ERROR_INVALID_VALUE"; return success;
    case out_of_memory: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return success;
    case invalid_context: *name = "CUDA_ERROR_INVALID_CONTEXT"; return success;
    case 214: *name = "CUDA_ERROR_ECC_UNCORRECTABLE"; return success;
    case invalid_handle: *name = "CUDA_ERROR_INVALID_HANDLE"; return success;
    case illegal_address: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; return success;
    default: *name = nullptr; return invalid_value;
    }
}

status cuDevicePrimaryCtxRetain(context* found, ordinal which) {
    const std::lock_guard lock(the().mutex);
    if (const auto why = begin_call("cuDevicePrimaryCtxRetain", false)) return why;
    if (which < 0 || which >= gpus) return invalid_device;
    the().contexts[which].retains++;
    *found = &the().contexts[which];
    return success;
}

status cuDevicePrimaryCtxRelease_v2(ordinal which) {
    const std::lock_guard lock(the().mutex);
    if (const auto why = begin_call("cuDevicePrimaryCtxRelease_v2", false)) return why;
    if (which < 0 || which >= gpus || the().contexts[which].retains == 0) return invalid_device;
    the().contexts[which].retains--;
    return success;
}

status cuCtxPushCurrent_v2(context which) {
    const std::lock_guard lock(the().mutex);
    if (const auto why = begin_call("cuCtxPushCurrent_v2", false)) return why;
    if (which->retains == 0) return invalid_context;
    stack.push_back(which);
    return success;
}

// As the real one, it may answer with an earlier error, and pops all the same.
status cuCtxPopCurrent_v2(context* popped) {
    const std::lock_guard lock(the().mutex);
    const auto why = begin_call("cuCtxPopCurrent_v2", false);
    if (stack.empty()) return invalid_context;
    *popped = stack.back();
    stack.pop_back();
    return why;
}

status cuCtxGetCurrent(context* found) {
    *found = current();
    return success;
}

status cuCtxGetDevice(ordinal* found) {
    const std::lock_guard lock(the().mutex);
    if (const auto why = begin_call("cuCtxGetDevice")) return why;
    if (current() == nullptr) return invalid_context;
    *found = current()->ordinal;
    return success;
}

status cuDeviceGetPCIBusId(char* text, int size, ordinal device) {
    const std::lock_guard lock(the().mutex);
    if (const auto why = begin_call("cuDeviceGetPCIBusId")) return why;
    std::snprintf(text, static_cast<size_t>(size), "0000:%02X:00.0", 0x1A + device);
    return success;
}

status cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    const std::lock_guard lock(the().mutex);
    if (const auto why = begin_call("cuCtxGetStreamPriorityRange")) return why;
    *least = 0;
    *greatest = -5;
    return success;
}

status cuThreadExchangeStreamCaptureMode(unsigned* mode) {
    std::swap(*mode, capture_mode);
    return success;
}

}  // extern "C"
