// The CUDA driver of this process, as a table of its functions.
//
// Only a driver that the program has loaded already is used, and nothing of it is initialised: a process that does not
// use a GPU never gets a CUDA context because of Varde.  Any thread.
#pragma once

#include "base/result.h"
#include "gpu/driver_types.h"

#include <optional>
#include <string>
#include <type_traits>

namespace varde::gpu {

namespace cuda {

struct driver {
#define VARDE_CALL(name, symbol, type) std::add_pointer_t<type> name = nullptr;
    VARDE_CUDA_CALLS(VARDE_CALL)
#undef VARDE_CALL
};

}  // namespace cuda

// Finds each function by `look_up(library, symbol)`; `unavailable` names the first that is missing.
result<cuda::driver> read_driver(void* library, void* (*look_up)(void* library, const char* symbol));

// The driver that this process has loaded; nothing where it has loaded none.
result<std::optional<cuda::driver>> loaded_driver();

// "0000:1B:00.0": the GPU of the calling thread's context; none where it has none.
std::optional<std::string> current_bus_id(const cuda::driver& with);

// "CONTEXT: CUDA_ERROR_ECC_UNCORRECTABLE (214)"
failure cuda_error(const cuda::driver& with, cuda::status why, std::string context);

}  // namespace varde::gpu
