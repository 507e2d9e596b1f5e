// The copies of one chunk: all are started first, then one event per GPU is waited for, so that many small tensors cost
// no more waiting than a large one.
//
// Lives on one thread, within a scope, and ends with land().
#pragma once

#include "gpu/devices.h"

#include <array>

namespace varde::gpu {

class flight {
public:
    explicit flight(devices& all) noexcept : all_(all) {}
    flight(const flight&) = delete;
    flight& operator=(const flight&) = delete;

    // After the first error nothing more is started.
    void to_host(device& by, std::byte* target, const std::byte* source, uint64_t size_bytes);
    void to_device(device& by, std::byte* target, const std::byte* source, uint64_t size_bytes);

    // Until all copies have ended: the first error.  A copy that does not end leaves the devices adrift.
    result<void> land();

private:
    struct leg {
        device* by = nullptr;
        marker end;
    };
    bool board(device& by);
    void note(result<void> outcome);

    devices& all_;
    std::optional<inside> inside_;  // the context of at_
    device* at_ = nullptr;
    std::array<leg, devices_max> legs_{};
    size_t leg_count_ = 0;
    result<void> outcome_;
};

}  // namespace varde::gpu
