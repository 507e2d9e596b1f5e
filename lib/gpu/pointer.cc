// Asking the driver about the first and the last byte.
#include "gpu/pointer.h"

#include <array>

namespace varde::gpu {

namespace {

// The driver knows nothing of the pointer, or cannot have given out any memory.
bool means_host(cuda::status why) noexcept {
    return why == cuda::invalid_value || why == cuda::not_initialized || why == cuda::deinitialized ||
           why == cuda::no_device || why == cuda::stub_library;
}

bool of_host(const location& where) noexcept { return where.kind == memory::host || where.kind == memory::pinned; }

std::string described(const location& where) {
    std::string text = memory_name(where.kind);
    if (where.kind != memory::host) text += " of GPU " + std::to_string(where.ordinal);
    return text;
}

result<location> locate_byte(const cuda::driver& with, const void* data) {
    // All four at once: alone, each would make tools that watch the driver complain of every host pointer.
    unsigned type = 0;
    unsigned managed = 0;
    location found;
    std::array<unsigned, 4> asked{cuda::attribute_memory_type, cuda::attribute_is_managed, cuda::attribute_ordinal,
                                  cuda::attribute_context};
    std::array<void*, 4> answers{&type, &managed, &found.ordinal, &found.context};
    const auto why = with.pointer_attributes(static_cast<unsigned>(asked.size()), asked.data(), answers.data(),
                                             reinterpret_cast<cuda::pointer>(data));
    if (means_host(why)) return location{};
    if (why != cuda::success)
        return cuda_error(with, why,
                          "couldn't find out where its memory is; call from a thread whose CUDA context is current");
    if (managed != 0) found.kind = memory::managed;
    else if (type == cuda::memory_host) found.kind = memory::pinned;
    else if (type == 0) return location{};
    else found.kind = memory::device;
    return found;
}

}  // namespace

const char* memory_name(memory kind) noexcept {
    switch (kind) {
    case memory::host: return "host memory";
    case memory::pinned: return "pinned host memory";
    case memory::managed: return "managed memory";
    case memory::device: return "device memory";
    }
    return "memory";
}

result<location> locate(const cuda::driver& with, const void* data, uint64_t size_bytes) {
    if (size_bytes == 0) return location{};
    auto first = locate_byte(with, data);
    if (!first) return first;
    auto last = locate_byte(with, static_cast<const std::byte*>(data) + size_bytes - 1);
    if (!last) return last;
    if (*first == *last) return first;
    // Partly registered host memory is read by the host in any case.
    if (of_host(*first) && of_host(*last)) return first->kind == memory::pinned ? first : last;
    return fail(code::invalid, "its " + std::to_string(size_bytes) + " bytes begin in " + described(*first) +
                                   " and end in " + described(*last) + "; pointer or shape is wrong");
}

}  // namespace varde::gpu
