// Adding, removing and arranging shards.
#include "client/registry.h"

#include "base/limits.h"

namespace varde::client {

result<void> registry::add(pack::shard what, std::byte* data) {
    if (by_name_.contains(what.name))
        return fail(code::invalid, "couldn't register tensor '" + what.name +
                                       "': this rank has registered one of that name; unregister it first");
    if (entries_.size() >= limits::tensors_per_node_max)
        return fail(code::invalid, "couldn't register tensor '" + what.name + "': this rank has " +
                                       std::to_string(entries_.size()) + " tensors already; join small tensors");
    // Alone first, so that whatever is wrong with it is said here and not at the first save.
    auto alone = pack::arrange(rank_, {what});
    if (!alone) return std::move(alone).error();
    const uint64_t size_bytes = alone->data_bytes;
    if (data == nullptr && size_bytes > 0)
        return fail(code::invalid, "couldn't register tensor '" + what.name + "': it has " +
                                       std::to_string(size_bytes) + " bytes, but its data pointer is NULL");
    if (size_bytes > limits::range_bytes_max - total_bytes_)
        return fail(code::invalid, "couldn't register tensor '" + what.name + "': with it this rank has more than " +
                                       std::to_string(limits::range_bytes_max >> 40) + " TiB");
    const auto place = gpus_.locate(data, size_bytes);
    if (!place)
        return fail(place.error().what, "couldn't register tensor '" + what.name + "': " + place.error().context);
    what.size_bytes = size_bytes;
    total_bytes_ += size_bytes;
    by_name_.emplace(what.name, next_);
    entries_.emplace(next_++, entry{std::move(what), {data, place->by}});
    changed_ = true;
    return {};
}

result<void> registry::remove(std::string_view name) {
    const auto found = by_name_.find(std::string(name));
    if (found == by_name_.end())
        return fail(code::not_found,
                    "couldn't unregister tensor '" + std::string(name) + "': none of that name is registered");
    const auto place = entries_.find(found->second);
    total_bytes_ -= place->second.what.size_bytes;
    entries_.erase(place);
    by_name_.erase(found);
    changed_ = true;
    return {};
}

result<const arranged_range*> registry::arranged() {
    if (!changed_) return &arranged_;
    std::vector<pack::shard> shards;
    shards.reserve(entries_.size());
    for (const auto& [order, each] : entries_) shards.push_back(each.what);
    auto range = pack::arrange(rank_, std::move(shards));
    if (!range) return std::move(range).error();
    arranged_.range = std::move(*range);
    arranged_.data.clear();
    arranged_.data.reserve(entries_.size());
    for (const pack::shard& each : arranged_.range.shards)
        arranged_.data.push_back(entries_.at(by_name_.at(each.name)).where);
    arranged_.version++;
    changed_ = false;
    return &arranged_;
}

}  // namespace varde::client
