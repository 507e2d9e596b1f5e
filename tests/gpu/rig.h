// GPU memory for a test, as a training program has it: through the driver library alone.
//
// The library is the simulated one of this build, found beside the program (../gpu), or the one that
// VARDE_TEST_CUDA names.  A real driver has no `control`: what needs it is skipped (simulated.h).
#pragma once

#include "gpu/driver_types.h"
#include "sim_control.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <string>
#include <unistd.h>
#include <vector>

namespace varde::test {

namespace cuda = varde::gpu::cuda;

// A driver library of this build.
inline std::string driver_path(const char* name) {
    return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../gpu" / name;
}

inline void* open_library(const std::string& path) {
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        std::fprintf(stderr, "%s\n", ::dlerror());
        std::abort();
    }
    return library;
}

class rig {
public:
    // Retains the primary contexts of the GPUs, as the CUDA runtime does; that of GPU 0 is current.
    explicit rig(int gpus = 1, bool initialised = true) : library_(open_library(chosen_driver())) {
        if (auto* found = ::dlsym(library_, "varde_sim_control"))
            control = reinterpret_cast<const sim::control* (*)()>(found)();
        if (!initialised) return;
        call("cuInit", 0U);
        contexts_.resize(static_cast<size_t>(gpus));
        for (int i = 0; i < gpus; i++) call("cuDevicePrimaryCtxRetain", &contexts_[static_cast<size_t>(i)], i);
        use(0);
    }
    rig(const rig&) = delete;
    rig& operator=(const rig&) = delete;

    const sim::control* control = nullptr;

    // A call that must succeed.
    template <class... Arguments>
    void call(const char* symbol, Arguments... arguments) {
        const cuda::status why = try_call(symbol, arguments...);
        if (why == cuda::success) return;
        std::fprintf(stderr, "%s: %u\n", symbol, why);
        std::abort();
    }
    template <class... Arguments>
    cuda::status try_call(const char* symbol, Arguments... arguments) {
        auto* function = reinterpret_cast<cuda::status (*)(Arguments...)>(::dlsym(library_, symbol));
        if (function == nullptr) std::abort();
        return function(arguments...);
    }

    void use(size_t gpu) {
        leave();
        call("cuCtxPushCurrent_v2", contexts_[gpu]);
    }
    void leave() {
        cuda::context was = nullptr;
        call("cuCtxGetCurrent", &was);
        if (was != nullptr) call("cuCtxPopCurrent_v2", &was);
    }
    cuda::context current() {
        cuda::context found = nullptr;
        call("cuCtxGetCurrent", &found);
        return found;
    }

    std::byte* device_memory(size_t gpu, size_t size) { return allocate(gpu, "cuMemAlloc_v2", size); }
    std::byte* pool_memory(size_t gpu, size_t size) {
        return allocate(gpu, "cuMemAllocAsync", size, cuda::legacy_stream());
    }
    std::byte* managed_memory(size_t gpu, size_t size) { return allocate(gpu, "cuMemAllocManaged", size, 1U); }
    std::byte* pinned_memory(size_t gpu, size_t size) {
        use(gpu);
        void* made = nullptr;
        call("cuMemHostAlloc", &made, size, 0U);
        use(0);
        return static_cast<std::byte*>(made);
    }

    // Whatever the memory is of: the caller waits until the bytes are there.
    void write(size_t gpu, std::byte* target, const std::vector<std::byte>& from) {
        use(gpu);
        call("cuMemcpyHtoD_v2", address(target), static_cast<const void*>(from.data()), from.size());
        use(0);
    }
    std::vector<std::byte> read(size_t gpu, const std::byte* source, size_t size) {
        std::vector<std::byte> found(size);
        use(gpu);
        call("cuMemcpyDtoH_v2", static_cast<void*>(found.data()), address(source), size);
        use(0);
        return found;
    }

    cuda::stream stream(size_t gpu, bool blocking) {
        use(gpu);
        cuda::stream made = nullptr;
        call("cuStreamCreateWithPriority", &made, blocking ? 0U : cuda::stream_non_blocking, 0);
        use(0);
        return made;
    }
    // A step of training: takes `work_us`, then all bytes of the memory have this value.
    void step(size_t gpu, cuda::stream on, std::byte* target, size_t size, unsigned char value) {
        use(gpu);
        call("cuLaunchHostFunc", on, work, static_cast<void*>(nullptr));
        call("cuMemsetD8Async", address(target), value, size, on);
        use(0);
    }
    void synchronize(size_t gpu, cuda::stream which) {
        use(gpu);
        call("cuStreamSynchronize", which);
        use(0);
    }

    static cuda::pointer address(const std::byte* where) { return reinterpret_cast<cuda::pointer>(where); }

private:
    static std::string chosen_driver() {
        const char* given = std::getenv("VARDE_TEST_CUDA");
        return given != nullptr ? given : driver_path("libcuda.so.1");
    }
    static constexpr unsigned work_us = 50'000;
    static void work(void*) { ::usleep(work_us); }

    template <class... More>
    std::byte* allocate(size_t gpu, const char* symbol, size_t size, More... more) {
        use(gpu);
        cuda::pointer made = 0;
        call(symbol, &made, size, more...);
        use(0);
        return reinterpret_cast<std::byte*>(made);
    }

    void* library_;
    std::vector<cuda::context> contexts_;
};

}  // namespace varde::test
