// All GPUs of a run.
#include "gpu/devices.h"

namespace varde::gpu {

devices::~devices() {
    if (adrift_) {
        for (size_t i = 0; i < count_; i++) all_[i]->abandon();
        return;
    }
    if (pinned_.empty()) return;
    const inside here(*driver_, all_.front()->context());
    if (here.entered() == cuda::success)
        discard(static_cast<int>(driver_->host_unregister(pinned_.data())), "a lost GPU has let go of it");
}

result<bool> devices::find_driver() {
    if (driver_) return true;
    auto found = loaded_driver();
    if (!found) return std::move(found).error();
    driver_ = *found;
    return driver_.has_value();
}

result<device*> devices::at(const location& where) {
    for (size_t i = 0; i < count_; i++)
        if (all_[i]->is_at(where)) return all_[i].get();
    if (count_ == devices_max)
        return fail(code::invalid, "couldn't use GPU " + std::to_string(where.ordinal) + ": this process uses " +
                                       std::to_string(devices_max) + " CUDA contexts already");
    location home = where;
    if (where.context == nullptr) {
        const auto why = driver_->primary_retain(&home.context, home.ordinal);
        if (why != cuda::success) return gpu_error(*driver_, home.ordinal, "cuDevicePrimaryCtxRetain", why);
        for (size_t i = 0; i < count_; i++)
            if (all_[i]->is_at(home)) {
                all_[i]->retained();
                return all_[i].get();
            }
    }
    auto opened = device::open(*driver_, home, where.context == nullptr);
    if (!opened) return std::move(opened).error();
    all_[count_] = std::move(*opened);
    return all_[count_++].get();
}

result<place> devices::locate(const void* data, uint64_t size_bytes) {
    const auto found = find_driver();
    if (!found) return found.error();
    if (!*found) return place{};
    const auto where = gpu::locate(*driver_, data, size_bytes);
    if (!where) return where.error();
    if (where->kind == memory::host) return place{};
    const auto by = at(*where);
    if (!by) return by.error();
    // Pinned memory is the host's to copy; its GPU is known from here on, so copies come after its work.
    return place{where->kind, where->kind == memory::pinned ? nullptr : *by};
}

result<void> devices::order_after(void* stream) {
    const auto found = find_driver();
    if (!found) return found.error();
    if (!*found) return fail(code::invalid, "this process has not loaded the CUDA driver (libcuda.so.1)");
    auto* const program = static_cast<cuda::stream>(stream);
    location where{memory::device, 0, nullptr};
    auto why = driver_->stream_context(program, &where.context);
    if (why != cuda::success) return cuda_error(*driver_, why, "it is no stream, or no CUDA context is current");
    {
        const inside here(*driver_, where.context);
        why = here.entered() != cuda::success ? here.entered() : driver_->context_ordinal(&where.ordinal);
    }
    if (why != cuda::success) return cuda_error(*driver_, why, "its CUDA context cannot be used");
    const auto by = at(where);
    if (!by) return by.error();
    (*by)->order_after(program == nullptr ? cuda::legacy_stream() : program);
    return {};
}

void devices::pin(std::span<std::byte> slab) {
    if (count_ == 0 || !pinned_.empty() || pin_error_ != 0) return;
    const inside here(*driver_, all_.front()->context());
    // Portable: for every context of this process.
    pin_error_ = here.entered() != cuda::success
                     ? here.entered()
                     : driver_->host_register(slab.data(), slab.size(), cuda::register_portable);
    if (pin_error_ == 0) pinned_ = slab;
}

result<void> devices::order() {
    for (size_t i = 0; i < count_; i++)
        if (auto marked = all_[i]->order(); !marked) return marked;
    ordered_count_ = count_;
    order_until_ = deadline::in_ms(patience_ms_);
    ordered_.store(count_ == 0, std::memory_order_release);
    return {};
}

result<void> devices::await_order() {
    if (ordered_.load(std::memory_order_acquire)) return {};
    const std::lock_guard lock(mutex_);
    if (ordered_.load(std::memory_order_relaxed)) return {};
    for (size_t i = 0; i < ordered_count_; i++)
        if (auto ended = all_[i]->await_order(order_until_); !ended) return ended;
    ordered_.store(true, std::memory_order_release);
    return {};
}

}  // namespace varde::gpu
