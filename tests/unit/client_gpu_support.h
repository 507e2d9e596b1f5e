// Tensors in every kind of memory, for tests of runs with GPUs.
#pragma once

#include "client_fake_agent.h"

#include "tests/gpu/rig.h"

namespace varde::test {

enum class kind { host, pinned, managed, device, pool };

// The bytes of `tensors`, each kept where its kind says.
struct gpu_tensors : tensors {
    struct place {
        kind what = kind::host;
        size_t gpu = 0;
        std::byte* at = nullptr;
    };
    rig& gpus;
    std::vector<place> places;

    gpu_tensors(rig& with, uint64_t seed, size_t count, uint64_t elements_max, size_t gpu_count,
                std::vector<kind> kinds = {kind::device, kind::host, kind::managed, kind::pinned, kind::pool})
        : tensors(seed, count, elements_max), gpus(with) {
        for (size_t i = 0; i < count; i++) places.push_back(make(kinds[i % kinds.size()], i % gpu_count, data[i]));
        upload();
    }
    place make(kind what, size_t gpu, bytes& own) const {
        if (own.empty()) return {kind::host, 0, nullptr};
        switch (what) {
        case kind::host: return {what, gpu, own.data()};
        case kind::pinned: return {what, gpu, gpus.pinned_memory(gpu, own.size())};
        case kind::managed: return {what, gpu, gpus.managed_memory(gpu, own.size())};
        case kind::device: return {what, gpu, gpus.device_memory(gpu, own.size())};
        case kind::pool: return {what, gpu, gpus.pool_memory(gpu, own.size())};
        }
        return {};
    }
    void upload() {
        for (size_t i = 0; i < places.size(); i++) {
            if (data[i].empty() || places[i].what == kind::host) continue;
            if (places[i].what == kind::pinned) std::memcpy(places[i].at, data[i].data(), data[i].size());
            else gpus.write(places[i].gpu, places[i].at, data[i]);
        }
    }
    // New bytes, where the old ones are.
    void change() {
        scramble();
        upload();
    }
    // What the memory holds now.
    std::vector<bytes> download() const {
        std::vector<bytes> found = data;
        for (size_t i = 0; i < places.size(); i++) {
            if (data[i].empty() || places[i].what == kind::host) continue;
            if (places[i].what == kind::pinned) std::memcpy(found[i].data(), places[i].at, found[i].size());
            else found[i] = gpus.read(places[i].gpu, places[i].at, found[i].size());
        }
        return found;
    }
    bool add_to(client::run& run) const {
        for (size_t i = 0; i < shards.size(); i++)
            if (!run.add(shards[i], places[i].at)) return false;
        return true;
    }
};

// One tensor of bytes in memory that the test has.
inline pack::shard tensor_of(const char* name, uint64_t size) { return {name, pack::dtype::u8, {size}, {}, {}, 0, 0}; }

inline bool begins_with(const bytes& whole, const bytes& part) {
    return whole.size() >= part.size() && std::equal(part.begin(), part.end(), whole.begin());
}

inline bool holds_only(const bytes& whole, size_t size, unsigned char value) {
    return whole.size() >= size && std::all_of(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size),
                                               [=](std::byte each) { return each == std::byte{value}; });
}

// Nothing of ours is left, but what the program had before.
inline bool same(const sim::counts& one, const sim::counts& other) {
    return one.streams == other.streams && one.events == other.events && one.registrations == other.registrations &&
           one.retains == other.retains && one.allocations == other.allocations && one.depth == other.depth;
}

}  // namespace varde::test
