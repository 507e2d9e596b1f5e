// One GPU, or rather one CUDA context on it: the stream on which Varde copies, its events, and the program's stream
// that these copies come after.
//
// open(), order() and the destructor belong to the run's calling thread; the rest is for any.
#pragma once

#include "base/clock.h"
#include "gpu/context.h"
#include "gpu/pointer.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace varde::gpu {

// "GPU 0: CALL failed: CUDA_ERROR_ECC_UNCORRECTABLE (214)"
failure gpu_error(const cuda::driver& with, cuda::ordinal which, const char* call, cuda::status why);

// A device's event, on loan to whoever copies.
struct marker {
    cuda::event event = nullptr;
};

class device {
public:
    // `retained`: the context is the primary one of its GPU, retained for this device, which releases it.
    static result<std::unique_ptr<device>> open(const cuda::driver& with, const location& where, bool retained);
    ~device();
    device(const device&) = delete;
    device& operator=(const device&) = delete;

    cuda::ordinal ordinal() const noexcept { return ordinal_; }
    cuda::context context() const noexcept { return context_; }
    // A location without a context is in the primary one.
    bool is_at(const location& where) const noexcept;
    // Takes over that the primary context, which this one is, was retained.
    void retained() noexcept { retained_ = true; }

    // The program's stream whose work writes the memory that is copied; the legacy default stream at first.
    void order_after(cuda::stream stream) noexcept { program_ = stream; }
    // Marks what the program's stream holds now.
    result<void> order();
    // Until what was marked has ended; `timeout`.
    result<void> await_order(deadline until);

    // A marker of nobody's; back with give_back() once it has come, or was never set.
    result<marker> take();
    void give_back(marker unused);
    // Inside the context: starts a copy on our stream.
    cuda::status copy_to_host(std::byte* target, const std::byte* source, uint64_t size_bytes) noexcept;
    cuda::status copy_to_device(std::byte* target, const std::byte* source, uint64_t size_bytes) noexcept;
    // Makes the marker come after all that was started.
    result<void> mark(marker which);
    // Until it has come.  `timeout`: the copies before it may go on at any time; after any other error they do not.
    result<void> await(marker which, deadline until);

    // Copies are under way that nobody waits for: everything stays, so that they end where they were meant to.
    void abandon() noexcept { context_ = nullptr; }

private:
    device(const cuda::driver& with, const location& where, bool retained) noexcept
        : with_(with), ordinal_(where.ordinal), context_(where.context), retained_(retained) {}
    result<void> open_stream();
    failure error(const char* call, cuda::status why) const { return gpu_error(with_, ordinal_, call, why); }
    cuda::status record(marker which) noexcept;
    cuda::status ask(marker which, deadline until) noexcept;

    const cuda::driver& with_;
    cuda::ordinal ordinal_;
    cuda::context context_;
    bool retained_;
    std::atomic<cuda::status> lost_{cuda::success};  // why nothing is copied any more
    cuda::stream stream_ = nullptr;
    cuda::stream program_ = cuda::legacy_stream();
    marker ordered_;

    std::mutex mutex_;          // what follows
    std::vector<marker> free_;  // in no copy's use
    size_t made_ = 0;           // markers, for which there is room in free_
};

}  // namespace varde::gpu
