// The shards that this rank has registered, and their places in the rank's range.  No locks: the run's calling thread
// only.
#pragma once

#include "base/result.h"
#include "gpu/devices.h"
#include "pack/layout.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace varde::client {

// Registered bytes.
struct memory {
    std::byte* data = nullptr;
    gpu::device* by = nullptr;  // who copies them; null: the host
};

// A range and where its bytes are in this process: data[i] belongs to range.shards[i].
struct arranged_range {
    uint64_t version = 0;  // grows with each change of the registration
    pack::range range;
    std::vector<memory> data;
};

class registry {
public:
    registry(uint32_t rank, gpu::devices& gpus) : rank_(rank), gpus_(gpus) {}

    result<void> add(pack::shard what, std::byte* data);
    result<void> remove(std::string_view name);
    // The places of what is registered now; computed again only after a change.
    result<const arranged_range*> arranged();

private:
    struct entry {
        pack::shard what;
        memory where;
    };
    uint32_t rank_;
    gpu::devices& gpus_;
    uint64_t next_ = 0;
    uint64_t total_bytes_ = 0;
    std::map<uint64_t, entry> entries_;  // in the order of registration, which arrange() keeps
    std::unordered_map<std::string, uint64_t> by_name_;
    bool changed_ = true;
    arranged_range arranged_;
};

}  // namespace varde::client
