// A CUDA driver without a GPU: what it keeps.
//
// The fault model.  Every stream is a thread, so operations run at any time between the call that enqueues them and
// the event behind them; a copy reads and writes one half of its bytes at its beginning and the other at its end, so
// whoever reads too early or writes too soon gets a mixture.  Streams of different GPUs are in no order; the legacy
// default stream and blocking streams wait for one another, non-blocking ones for nobody.  Memory of a GPU is mapped
// without any access: a host that touches it dies.  What a real driver leaves undefined is noted as a violation.
#pragma once

#include "gpu/driver_types.h"
#include "sim_control.h"

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace varde::sim {

using namespace varde::gpu::cuda;

constexpr status invalid_context = 201;
constexpr status illegal_address = 700;
constexpr status invalid_device = 101;
constexpr status invalid_handle = 400;
constexpr status already_registered = 712;
constexpr status not_registered = 713;
constexpr status capture_unsupported = 900;
constexpr int gpus = 4;

enum class kind { device, managed, pinned };

struct allocation {
    kind what = kind::device;
    CUctx_st* owner = nullptr;
    bool pooled = false;      // the context attribute is null
    bool registered = false;  // by cuMemHostRegister: the bytes are the program's
    bool portable = true;
    std::byte* address = nullptr;  // the program's
    std::byte* inside = nullptr;   // the same bytes, where the driver can touch them
    size_t size = 0;
    uint64_t busy = 0;  // operations that use it
};

struct operation {
    uint64_t number = 0;
    std::byte* target = nullptr;
    const std::byte* source = nullptr;  // null: `value` is set, or a function called
    size_t size = 0;
    unsigned char value = 0;
    void (*function)(void*) = nullptr;
    void* argument = nullptr;
    std::vector<std::pair<CUstream_st*, uint64_t>> after;
    std::vector<allocation*> uses;
};

}  // namespace varde::sim

struct CUstream_st {
    CUctx_st* owner = nullptr;
    bool blocking = true;
    bool alive = true;
    bool closing = false;
    bool capturing = false;
    uint64_t issued = 0;
    uint64_t ended = 0;
    std::deque<varde::sim::operation> queue;
    std::thread worker;
};

struct CUevent_st {
    CUctx_st* owner = nullptr;
    bool alive = true;
    CUstream_st* on = nullptr;
    uint64_t number = 0;  // of the operation that it marks
};

struct CUctx_st {
    int ordinal = 0;
    uint64_t retains = 0;
    CUstream_st* legacy = nullptr;
    varde::sim::status lost = varde::sim::success;
    uint64_t lost_after = UINT64_MAX;  // operations
    varde::sim::status lost_with = varde::sim::success;
    uint64_t hangs_after = UINT64_MAX;  // operations
};

namespace varde::sim {

struct injection {
    std::string function;
    uint64_t nth = 0;
    status what = success;
    bool loses_gpu = false;
};

// All under one lock: this is a model, not a product.
struct machine {
    std::mutex mutex;
    std::condition_variable news;
    bool initialised = false;
    bool stopping = false;
    CUctx_st contexts[gpus];
    std::deque<CUstream_st> streams;
    std::deque<CUevent_st> events;
    std::deque<allocation> allocations;  // those of size 0 are gone
    uint64_t bytes_per_s = 4'000'000'000;
    uint64_t latency_us = 20;
    std::map<std::string, uint64_t> calls;
    std::vector<injection> injections;
    std::string violations;

    machine();
    ~machine();
    void violation(const std::string& text) { violations += text + "\n"; }
};
machine& the();

extern thread_local std::vector<CUctx_st*> stack;  // of current contexts
extern thread_local unsigned capture_mode;

// The head of every call: counted, and what it has to return at once.
status begin_call(const char* function, bool wants_context = true);
CUctx_st* current();

// sim_memory.cc
allocation* find(const void* address, size_t size);
// sim_stream.cc
CUstream_st* add_stream(CUctx_st* owner, bool blocking);
// The stream behind a handle; null where it may not be used in the current context.
CUstream_st* stream_of(CUstream_st* handle, const char* function);
void enqueue(CUstream_st* on, operation what);
void wait_for(std::unique_lock<std::mutex>& lock, CUstream_st* on, uint64_t number);

}  // namespace varde::sim
