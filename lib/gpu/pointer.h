// Where memory lies: what the CUDA driver knows of a pointer.
#pragma once

#include "gpu/driver.h"

#include <cstdint>

namespace varde::gpu {

enum class memory : uint8_t {
    host,     // unknown to the driver
    pinned,   // the host's, registered with the driver or allocated by it: the GPU may be writing there
    managed,  // moves between host and GPU; the driver copies it
    device,   // the GPU's own
};
const char* memory_name(memory kind) noexcept;

struct location {
    memory kind = memory::host;
    cuda::ordinal ordinal = 0;        // of the GPU it belongs to; not for host
    cuda::context context = nullptr;  // null where it belongs to none: memory of a pool, or mapped by address

    bool operator==(const location&) const = default;
};

// `invalid` where the bytes [data, + size_bytes) do not begin and end in the same memory.
result<location> locate(const cuda::driver& with, const void* data, uint64_t size_bytes);

}  // namespace varde::gpu
