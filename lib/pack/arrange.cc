// arrange(): a rank's shards are checked once, here, and get their places in the rank's range.
//
// The client library, the agent and the reader of packs all come through this function: what it accepts is what a
// pack may hold.
#include "base/checked.h"
#include "base/limits.h"
#include "pack/layout.h"
#include "pack/text.h"

#include <algorithm>
#include <unordered_set>

namespace varde::pack {

namespace {

failure refused(const shard& what, const std::string& reason) {
    return fail(code::invalid, "couldn't save tensor " + in_quotes(what.name) + ": " + reason);
}

result<void> check_name(const shard& what) {
    if (what.name.empty()) return refused(what, "its name is empty; give it one");
    if (what.name.size() > limits::tensor_name_bytes_max)
        return refused(what, "its name has " + std::to_string(what.name.size()) + " bytes, more than " +
                                 std::to_string(limits::tensor_name_bytes_max) + "; give it a shorter one");
    if (what.name.find('\0') != std::string::npos) return refused(what, "its name contains a zero byte");
    if (!valid_utf8(what.name)) return refused(what, "its name is not valid UTF-8");
    return {};
}

// Bits of all elements of a box.  Dimensions of zero do not hide an overflow of the others, because readers of the
// format multiply in order and refuse such a shape.
std::optional<uint64_t> bits_of(const std::vector<uint64_t>& shape, uint64_t element_bits) {
    std::optional<uint64_t> bits = element_bits;
    bool empty = false;
    for (const uint64_t size : shape) {
        if (size == 0) empty = true;
        else if (bits) bits = checked_multiply(*bits, size);
    }
    if (bits && empty) bits = 0;
    return bits;
}

result<void> check_place(const shard& what) {
    if (what.global_shape.empty()) {
        if (!what.offset.empty()) return refused(what, "it has an offset but no global shape; give both or none");
        return {};
    }
    const size_t dims = what.shape.size();
    if (what.global_shape.size() != dims || what.offset.size() != dims)
        return refused(what, "shape, global shape and offset have " + std::to_string(dims) + ", " +
                                 std::to_string(what.global_shape.size()) + " and " +
                                 std::to_string(what.offset.size()) + " numbers; they need the same count");
    for (size_t dim = 0; dim < dims; dim++) {
        const auto end = checked_add(what.offset[dim], what.shape[dim]);
        if (!end || *end > what.global_shape[dim])
            return refused(what, "in dimension " + std::to_string(dim) + " offset " + std::to_string(what.offset[dim]) +
                                     " and size " + std::to_string(what.shape[dim]) + " reach beyond the global size " +
                                     std::to_string(what.global_shape[dim]));
    }
    if (!bits_of(what.global_shape, dtype_bits(what.type)))
        return refused(what, "its global shape is too large to count");
    return {};
}

// The size of the shard in bytes, when everything about it may be stored.
result<uint64_t> check_shard(const shard& what) {
    if (auto named = check_name(what); !named) return std::move(named).error();
    const unsigned element_bits = dtype_bits(what.type);
    if (element_bits == 0)
        return refused(what, "there is no element type " + std::to_string(static_cast<unsigned>(what.type)) +
                                 "; they go from 1 to " + std::to_string(dtype_count));
    if (what.shape.size() > limits::tensor_dims_max)
        return refused(what, "it has " + std::to_string(what.shape.size()) + " dimensions, more than " +
                                 std::to_string(limits::tensor_dims_max));
    if (auto placed = check_place(what); !placed) return std::move(placed).error();
    const auto bits = bits_of(what.shape, element_bits);
    if (!bits || *bits / 8 > limits::range_bytes_max)
        return refused(what,
                       "it is larger than the " + std::to_string(limits::range_bytes_max >> 40) + " TiB of a rank");
    if (*bits % 8 != 0)
        return refused(what, "its " + std::to_string(*bits) + " bits of " + dtype_name(what.type) +
                                 " do not fill whole bytes; pad the shard to a whole number of bytes");
    return *bits / 8;
}

result<void> check_unique(const std::vector<shard>& shards) {
    std::unordered_set<std::string_view> names;
    names.reserve(shards.size());
    for (const shard& each : shards) {
        if (!names.insert(each.name).second)
            return refused(each, "the rank has another tensor of this name; give each its own");
    }
    return {};
}

}  // namespace

result<range> arrange(uint32_t rank, std::vector<shard> shards) {
    if (rank >= limits::world_max)
        return fail(code::invalid, "couldn't lay out rank " + std::to_string(rank) + ": ranks end below " +
                                       std::to_string(limits::world_max));
    if (shards.size() > limits::tensors_per_node_max)
        return fail(code::invalid, "couldn't lay out rank " + std::to_string(rank) + ": it has " +
                                       std::to_string(shards.size()) + " tensors, more than " +
                                       std::to_string(limits::tensors_per_node_max) + "; join small tensors");
    for (shard& each : shards) {
        const auto size = check_shard(each);
        if (!size) return size.error();
        each.size_bytes = *size;
    }
    if (auto unique = check_unique(shards); !unique) return std::move(unique).error();
    // Element sizes are powers of two from 8 bits on, and each shard is a whole number of elements: falling sizes
    // align all.
    std::stable_sort(shards.begin(), shards.end(),
                     [](const shard& a, const shard& b) { return dtype_bits(a.type) > dtype_bits(b.type); });
    range made{.rank = rank, .shards = std::move(shards)};
    for (shard& each : made.shards) {
        each.offset_bytes = made.data_bytes;
        made.data_bytes += each.size_bytes;  // 100,000 times 16 TiB stays below 2^61
        if (made.data_bytes > limits::range_bytes_max)
            return refused(each, "with it, rank " + std::to_string(rank) + " has more than " +
                                     std::to_string(limits::range_bytes_max >> 40) + " TiB");
    }
    made.size_bytes = align_up(made.data_bytes, limits::page_bytes);
    return made;
}

}  // namespace varde::pack
