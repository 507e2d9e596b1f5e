// Memory of the simulated GPUs, and copies.
#include "sim.h"

#include <sys/mman.h>
#include <unistd.h>

namespace varde::sim {

namespace {

// Device memory has two mappings of the same bytes: the program's without access, and the driver's.
allocation* allocate(kind what, size_t size) {
    const int file = ::memfd_create("gpu", MFD_CLOEXEC);
    if (::ftruncate(file, static_cast<off_t>(size)) != 0) return nullptr;
    void* const inside = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    void* outside = inside;
    if (what == kind::device) outside = ::mmap(nullptr, size, PROT_NONE, MAP_SHARED, file, 0);
    ::close(file);
    allocation& made = the().allocations.emplace_back();
    made.what = what;
    made.owner = current();
    made.address = static_cast<std::byte*>(outside);
    made.inside = static_cast<std::byte*>(inside);
    made.size = size;
    return &made;
}

status release(std::unique_lock<std::mutex>& lock, const char* function, const void* address) {
    allocation* const found = find(address, 1);
    if (found == nullptr || found->address != address || found->registered) return invalid_value;
    if (found->busy > 0) the().violation(std::string(function) + ": memory that a copy uses");
    the().news.wait(lock, [&] { return found->busy == 0; });
    if (found->inside != found->address) ::munmap(found->inside, found->size);
    ::munmap(found->address, found->size);
    found->size = 0;
    return success;
}

// The bytes as the driver can touch them: those of a GPU or managed memory; null where they are not all of one.
std::byte* on_gpu(allocation* found, const void* address) {
    if (found == nullptr || found->what == kind::pinned) return nullptr;
    return found->inside + (static_cast<const std::byte*>(address) - found->address);
}

// Host bytes that the GPU can reach by itself.
bool is_pinned(const allocation* found) {
    if (found == nullptr || found->what == kind::device) return false;
    if (!found->portable && found->owner != current())
        the().violation("a copy with memory that is registered for another context alone");
    return true;
}

status copy(const char* function, operation what, allocation* of_gpu, allocation* of_host, stream where, bool waits) {
    std::unique_lock lock(the().mutex, std::adopt_lock);
    CUstream_st* const on = stream_of(where, function);
    if (on == nullptr) return invalid_handle;
    if ((what.target == nullptr) || of_gpu == nullptr) return invalid_value;
    if (of_gpu->owner->ordinal != on->owner->ordinal) {
        the().violation(std::string(function) + ": memory of another GPU");
        return invalid_value;
    }
    what.uses.push_back(of_gpu);
    if (is_pinned(of_host)) what.uses.push_back(of_host);
    else waits = true;  // pageable memory goes through a buffer of the driver's, while the caller waits
    enqueue(on, std::move(what));
    if (waits) wait_for(lock, on, on->issued);
    return on->owner->lost;
}

status to_host(const char* function, void* target, pointer source, size_t size, stream where, bool waits) {
    the().mutex.lock();
    auto why = begin_call(function);
    allocation* const gpu = find(reinterpret_cast<void*>(source), size);
    allocation* const host = find(target, size);
    operation what;
    what.size = size;
    what.source = on_gpu(gpu, reinterpret_cast<void*>(source));
    what.target = static_cast<std::byte*>(target);
    if (why == success && (what.source == nullptr || (host != nullptr && host->what == kind::device)))
        why = invalid_value;
    if (why == success) return copy(function, std::move(what), gpu, host, where, waits);
    the().mutex.unlock();
    return why;
}

status to_device(const char* function, pointer target, const void* source, size_t size, stream where, bool waits) {
    the().mutex.lock();
    auto why = begin_call(function);
    allocation* const gpu = find(reinterpret_cast<void*>(target), size);
    allocation* const host = find(source, size);
    operation what;
    what.size = size;
    what.source = static_cast<const std::byte*>(source);
    what.target = on_gpu(gpu, reinterpret_cast<void*>(target));
    if (why == success && (what.target == nullptr || (host != nullptr && host->what == kind::device)))
        why = invalid_value;
    if (why == success) return copy(function, std::move(what), gpu, host, where, waits);
    the().mutex.unlock();
    return why;
}

}  // namespace

allocation* find(const void* address, size_t size) {
    const auto* const first = static_cast<const std::byte*>(address);
    for (allocation& each : the().allocations)
        if (first >= each.address && first < each.address + each.size)
            return size <= static_cast<size_t>(each.address + each.size - first) ? &each : nullptr;
    return nullptr;
}

}  // namespace varde::sim

using namespace varde::sim;

extern "C" {

status cuMemAlloc_v2(pointer* made, size_t size) {
    const std::lock_guard lock(the().mutex);
    if (const auto why = begin_call("cuMemAlloc_v2")) return why;
    *made = reinterpret_cast<pointer>(allocate(kind::device, size)->address);
    return success;
}

// From a pool: the driver says no context for it.
status cuMemAllocAsync(pointer* made, size_t size, stream) {
    const std::lock_guard lock(the().mutex);
    if (const auto why = begin_call("cuMemAllocAsync")) return why;
    allocation* const found = allocate(kind::device, size);
    found->pooled = true;
    *made = reinterpret_cast<pointer>(found->address);
    return success;
}

status cuMemAllocManaged(pointer* made, size_t size, unsigned) {
    const std::lock_guard lock(the().mutex);
    if (const auto why = begin_call("cuMemAllocManaged")) return why;
    *made = reinterpret_cast<pointer>(allocate(kind::managed, size)->address);
    return success;
}

status cuMemHostAlloc(void** made, size_t size, unsigned) {
    const std::lock_guard lock(the().mutex);
    if (const auto why = begin_call("cuMemHostAlloc")) return why;
    *made = allocate(kind::pinned, size)->address;
    return success;
}

status cuMemFree_v2(pointer which) {
    std::unique_lock lock(the().mutex);
    if (const auto why = begin_call("cuMemFree_v2")) return why;
    return release(lock, "cuMemFree_v2", reinterpret_cast<void*>(which));
}

status cuMemFreeHost(void* which) {
    std::unique_lock lock(the().mutex);
    if (const auto why = begin_call("cuMemFreeHost")) return why;
    return release(lock, "cuMemFreeHost", which);
}

status cuMemHostRegister_v2(void* address, size_t size, unsigned flags) {
    const std::lock_guard lock(the().mutex);
    if (const auto why = begin_call("cuMemHostRegister_v2")) return why;
    auto* const first = static_cast<std::byte*>(address);
    for (const allocation& each : the().allocations)
        if (first < each.address + each.size && each.address < first + size) return already_registered;
    allocation& made = the().allocations.emplace_back();
    made.what = kind::pinned;
    made.owner = current();
    made.registered = true;
    made.portable = (flags & register_portable) != 0;
    made.address = made.inside = first;
    made.size = size;
    return success;
}

status cuMemHostUnregister(void* address) {
    std::unique_lock lock(the().mutex);
    if (const auto why = begin_call("cuMemHostUnregister")) return why;
    allocation* const found = find(address, 1);
    if (found == nullptr || !found->registered || found->address != address) return not_registered;
    if (found->busy > 0) the().violation("cuMemHostUnregister: memory that a copy uses");
    found->size = 0;
    return success;
}

status cuPointerGetAttributes(unsigned count, unsigned* asked, void** answers, pointer where) {
    const std::lock_guard lock(the().mutex);
    if (const auto why = begin_call("cuPointerGetAttributes", false)) return why;
    const allocation* const found = find(reinterpret_cast<void*>(where), 1);
    for (unsigned i = 0; i < count; i++) {
        auto* const number = static_cast<unsigned*>(answers[i]);
        switch (asked[i]) {
        case attribute_memory_type:
            *number = found == nullptr ? 0 : found->what == kind::pinned ? memory_host : memory_device;
            break;
        case attribute_is_managed: *number = found != nullptr && found->what == kind::managed ? 1 : 0; break;
        case attribute_ordinal: *static_cast<int*>(answers[i]) = found == nullptr ? -2 : found->owner->ordinal; break;
        case attribute_context:
            *static_cast<context*>(answers[i]) = found == nullptr || found->pooled ? nullptr : found->owner;
            break;
        default: return invalid_value;
        }
    }
    return success;
}

status cuMemcpyDtoHAsync_v2(void* target, pointer source, size_t size, stream where) {
    return to_host("cuMemcpyDtoHAsync_v2", target, source, size, where, false);
}

status cuMemcpyHtoDAsync_v2(pointer target, const void* source, size_t size, stream where) {
    return to_device("cuMemcpyHtoDAsync_v2", target, source, size, where, false);
}

status cuMemcpyDtoH_v2(void* target, pointer source, size_t size) {
    return to_host("cuMemcpyDtoH_v2", target, source, size, nullptr, true);
}

status cuMemcpyHtoD_v2(pointer target, const void* source, size_t size) {
    return to_device("cuMemcpyHtoD_v2", target, source, size, nullptr, true);
}

status cuMemsetD8Async(pointer target, unsigned char value, size_t size, stream where) {
    const std::lock_guard lock(the().mutex);
    if (const auto why = begin_call("cuMemsetD8Async")) return why;
    CUstream_st* const on = stream_of(where, "cuMemsetD8Async");
    // Pinned memory too: a kernel writes it as well.
    allocation* const found = find(reinterpret_cast<void*>(target), size);
    if (on == nullptr || found == nullptr) return invalid_value;
    operation what;
    what.target = found->inside + (reinterpret_cast<std::byte*>(target) - found->address);
    what.size = size;
    what.value = value;
    what.uses.push_back(found);
    enqueue(on, std::move(what));
    return success;
}

}  // extern "C"
