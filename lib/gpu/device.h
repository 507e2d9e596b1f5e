// One GPU, or rather one CUDA context on it: the stream on which Varde copies, its events, and the program's stream
// that these copies come after.
//
// open(), order() and the destructor belong to the run's calling thread; the rest is for any.
#pragma once

#include "base/clock.h"
#include "gpu/context.h"
#include "gpu/pointer.h"

#include <memory>
#include <mutex>
#include <vector>

namespace varde::gpu {

// "GPU 0: CALL failed: CUDA_ERROR_ECC_UNCORRECTABLE (214)"
failure gpu_error(const cuda::driver& with, cuda::ordinal which, const char* call, cuda::status why);

class device {
public:
    // A location without a context gets the primary context of its GPU, which stays retained.
    static result<std::unique_ptr<device>> open(const cuda::driver& with, const location& where);
    ~device();
    device(const device&) = delete;
    device& operator=(const device&) = delete;

    cuda::ordinal ordinal() const noexcept { return ordinal_; }
    cuda::context context() const noexcept { return context_; }
    bool is_at(const location& where) const noexcept;

    // The program's stream whose work writes the memory that is copied; the legacy default stream at first.
    void order_after(cuda::stream stream) noexcept { program_ = stream; }
    // Marks what the program's stream holds now.
    result<void> order();
    // Until what was marked has ended; `timeout`.
    result<void> await_order(deadline until);

    // An event of nobody's; back with give_back() once it has come, or was never marked.
    result<cuda::event> take_event();
    void give_back(cuda::event unused);
    // The three below want to be called inside() the context.  A copy is started on our stream; mark() makes the event
    // come after all that was started.
    cuda::status copy_to_host(std::byte* target, const std::byte* source, uint64_t size_bytes) noexcept;
    cuda::status copy_to_device(std::byte* target, const std::byte* source, uint64_t size_bytes) noexcept;
    cuda::status mark(cuda::event which) noexcept { return with_.event_record(which, stream_); }
    // `timeout`: the event has not come; the copies before it may go on at any time.
    result<void> await(cuda::event marked, deadline until);

    // Copies are under way that nobody waits for: everything stays, so that they end where they were meant to.
    void abandon() noexcept { context_ = nullptr; }

private:
    device(const cuda::driver& with, cuda::ordinal ordinal) : with_(with), ordinal_(ordinal) {}
    result<void> open_context(const location& where);
    result<void> open_stream();
    failure error(const char* call, cuda::status why) const { return gpu_error(with_, ordinal_, call, why); }

    const cuda::driver& with_;
    cuda::ordinal ordinal_;
    cuda::context context_ = nullptr;
    bool retained_ = false;  // the primary context, by us
    cuda::stream stream_ = nullptr;
    cuda::stream program_ = cuda::legacy_stream();
    cuda::event ordered_ = nullptr;

    std::mutex mutex_;
    std::vector<cuda::event> free_;  // in no copy's use
};

}  // namespace varde::gpu
