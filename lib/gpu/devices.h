// The GPUs that a run copies from and to.
//
// Two rules keep bytes right.  Nothing is copied before the program's work that was enqueued at order() has ended, on
// every GPU here.  And what our copies touch is not used again before they have ended; where they never do, the run is
// adrift: it may not use its slab any more, nor give it back.
//
// await_order() is for any thread; everything else for the run's calling thread.
#pragma once

#include "gpu/device.h"

#include <array>
#include <atomic>
#include <span>

namespace varde::gpu {

// Contexts of one process; a node has at most 16 GPUs.
constexpr size_t devices_max = 32;

// A piece of registered memory: who copies it.
struct place {
    memory kind = memory::host;
    device* by = nullptr;  // null: the host
};

class devices {
public:
    // `patience_ms`: how long the program's work may take before a copy, and a copy itself.
    explicit devices(uint64_t patience_ms) : patience_ms_(patience_ms) {}
    ~devices();
    devices(const devices&) = delete;
    devices& operator=(const devices&) = delete;

    // Whose memory it is.  The driver is looked for here, so a program may begin with its GPUs after varde_open.
    result<place> locate(const void* data, uint64_t size_bytes);
    // Makes `stream` the program's stream of its GPU; null: the legacy default stream of the current context.
    result<void> order_after(void* stream);

    // Registers the slab with the driver, once, if there is a GPU; a refusal only makes copies slower.
    void pin(std::span<std::byte> slab);
    uint64_t pinned_bytes() const noexcept { return pinned_.size(); }
    uint64_t pin_error() const noexcept { return pin_error_; }  // the driver's number; 0: none

    // Marks what the program has enqueued up to now.
    result<void> order();
    // Until it has ended.
    result<void> await_order();

    bool none() const noexcept { return count_ == 0; }
    uint64_t patience_ms() const noexcept { return patience_ms_; }
    const cuda::driver& driver() const noexcept { return *driver_; }

    // A copy did not end in time, and nobody waits for it any more.
    void drift() noexcept { adrift_ = true; }
    bool adrift() const noexcept { return adrift_; }

private:
    result<bool> find_driver();
    result<device*> at(const location& where);

    uint64_t patience_ms_;
    std::optional<cuda::driver> driver_;
    std::array<std::unique_ptr<device>, devices_max> all_;  // do not move: copies run while one is added
    size_t count_ = 0;
    std::span<std::byte> pinned_;
    uint64_t pin_error_ = 0;
    std::atomic<bool> adrift_{false};

    std::mutex mutex_;  // of the one thread that asks, while the others wait for it
    std::atomic<bool> ordered_{true};
    deadline order_until_ = deadline::in_ms(0);
    size_t ordered_count_ = 0;
};

}  // namespace varde::gpu
