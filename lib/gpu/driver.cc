// Finding the driver's functions by their names.
#include "gpu/driver.h"

#include <array>
#include <cstring>
#include <dlfcn.h>

namespace varde::gpu {

namespace {

constexpr const char* library_name = "libcuda.so.1";

}  // namespace

result<cuda::driver> read_driver(void* library, void* (*look_up)(void*, const char*)) {
    cuda::driver made;
    const struct {
        const char* symbol;
        void* target;
    } all[] = {
#define VARDE_CALL(name, symbol, type) {#symbol, &made.name},
        VARDE_CUDA_CALLS(VARDE_CALL)
#undef VARDE_CALL
    };
    for (const auto& each : all) {
        void* found = look_up(library, each.symbol);
        if (found == nullptr)
            return fail(code::unavailable, std::string("couldn't use the CUDA driver of this process: its ") +
                                               library_name + " has no '" + each.symbol +
                                               "'; a driver of CUDA 11 or later is needed");
        // POSIX has a function's address in an object pointer; C++ copies it, bit for bit.
        std::memcpy(each.target, &found, sizeof found);
    }
    return made;
}

result<std::optional<cuda::driver>> loaded_driver() {
    // Never closed: the driver has threads of its own, and must not go when the program lets go of it before us.
    void* library = ::dlopen(library_name, RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) return std::optional<cuda::driver>();
    auto found = read_driver(library, ::dlsym);
    if (!found) return std::move(found).error();
    return std::optional<cuda::driver>(*found);
}

std::optional<std::string> current_bus_id(const cuda::driver& with) {
    cuda::ordinal device = 0;
    std::array<char, 32> text{};
    if (with.context_ordinal(&device) != cuda::success ||
        with.device_bus_id(text.data(), static_cast<int>(text.size()), device) != cuda::success)
        return std::nullopt;
    text.back() = '\0';
    return text.data();
}

failure cuda_error(const cuda::driver& with, cuda::status why, std::string context) {
    const char* name = nullptr;
    if (with.get_error_name(why, &name) != cuda::success || name == nullptr) name = "an error without a name";
    return fail(why == cuda::out_of_memory ? code::no_memory : code::io,
                std::move(context) + ": " + name + " (" + std::to_string(why) + ")");
}

}  // namespace varde::gpu
