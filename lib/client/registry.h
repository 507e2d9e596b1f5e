// The shards that this rank has registered, and their places in the rank's range.  No locks: the run's calling thread
// only.
#pragma once

#include "base/result.h"
#include "pack/layout.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace varde::client {

// A range and where its bytes are in this process: data[i] belongs to range.shards[i].
struct arranged_range {
    uint64_t version = 0;  // grows with each change of the registration
    pack::range range;
    std::vector<std::byte*> data;
};

class registry {
public:
    explicit registry(uint32_t rank) : rank_(rank) {}

    result<void> add(pack::shard what, std::byte* data);
    result<void> remove(std::string_view name);
    // The places of what is registered now; computed again only after a change.
    result<const arranged_range*> arranged();

private:
    struct entry {
        pack::shard what;
        std::byte* data = nullptr;
    };
    uint32_t rank_;
    uint64_t next_ = 0;
    uint64_t total_bytes_ = 0;
    std::map<uint64_t, entry> entries_;  // in the order of registration, which arrange() keeps
    std::unordered_map<std::string, uint64_t> by_name_;
    bool changed_ = true;
    arranged_range arranged_;
};

}  // namespace varde::client
