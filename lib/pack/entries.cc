// Places of ranges in the file, and the walk over its tensors.
#include "pack/entries.h"

#include "base/checked.h"
#include "base/limits.h"
#include "base/options.h"
#include "pack/seal_format.h"
#include "pack/text.h"

#include <algorithm>

namespace varde::pack {

namespace {

failure refused(const std::string& reason) { return fail(code::invalid, "couldn't lay out the pack: " + reason); }

std::string counted(uint64_t count, const char* what, uint64_t most) {
    return std::to_string(count) + " " + what + " are more than " + std::to_string(most);
}

result<void> check_ranks(uint32_t world, std::span<const range> ranges, uint64_t chunk_bytes) {
    if (ranges.size() > limits::local_ranks_max)
        return refused(counted(ranges.size(), "ranks on one node", limits::local_ranks_max));
    uint64_t tensors = 0;
    uint64_t chunks = 0;
    for (size_t index = 0; index < ranges.size(); index++) {
        const uint32_t rank = ranges[index].rank;
        if (rank >= world)
            return refused("rank " + std::to_string(rank) + " is not below the world size " + std::to_string(world));
        if (index > 0 && rank <= ranges[index - 1].rank)
            return refused("ranks must ascend, but " + std::to_string(rank) + " comes late or twice");
        tensors += ranges[index].shards.size();
        chunks += chunk_count(ranges[index].size_bytes, chunk_bytes);
    }
    if (tensors > limits::tensors_per_node_max)
        return refused(counted(tensors, "tensors on one node", limits::tensors_per_node_max) + "; join small tensors");
    if (chunks > limits::chunks_per_pack_max)
        return refused(counted(chunks, "chunks in one pack", limits::chunks_per_pack_max) + "; use larger chunks");
    return {};
}

}  // namespace

std::string rank_prefix(uint32_t rank) {
    std::string digits = std::to_string(rank);
    if (digits.size() < 5) digits.insert(0, 5 - digits.size(), '0');
    return "rank" + digits + "/";
}

result<void> check_identity(const identity& who, std::span<const range> ranges, uint64_t chunk_bytes) {
    if (auto named = check_run_name(who.run); !named) return std::move(named).error();
    if (who.world == 0 || who.world > limits::world_max)
        return refused("a world of " + std::to_string(who.world) + " ranks is not within 1 to " +
                       std::to_string(limits::world_max));
    if (who.node_count == 0 || who.node_count > limits::nodes_max)
        return refused("a count of " + std::to_string(who.node_count) + " nodes is not within 1 to " +
                       std::to_string(limits::nodes_max));
    if (who.node_index >= who.node_count)
        return refused("node index " + std::to_string(who.node_index) + " is not below the node count " +
                       std::to_string(who.node_count));
    const bool plain = std::all_of(who.library.begin(), who.library.end(),
                                   [](char letter) { return letter >= 0x20 && letter < 0x7F; });
    if (who.library.size() > library_text_bytes_max || !plain)
        return refused("library version " + in_quotes(who.library) + " is no plain text of at most " +
                       std::to_string(library_text_bytes_max) + " bytes");
    if (chunk_bytes < limits::chunk_bytes_min || chunk_bytes > limits::chunk_bytes_max ||
        chunk_bytes % limits::page_bytes != 0)
        return refused("chunks of " + std::to_string(chunk_bytes) + " bytes are no multiple of " +
                       std::to_string(limits::page_bytes) + " up to " + std::to_string(limits::chunk_bytes_max));
    return check_ranks(who.world, ranges, chunk_bytes);
}

void place(image& target, std::vector<range> ranges, uint64_t header_bytes) {
    uint64_t offset = header_bytes;
    for (range& each : ranges) {
        const uint64_t size = each.size_bytes;
        target.ranges.push_back({.what = std::move(each), .file_offset = offset, .first_chunk = target.chunk_count});
        offset += size;  // at most 256 times 16 TiB (limits.h)
        target.chunk_count += chunk_count(size, target.chunk_bytes);
    }
    target.seal_offset = offset;
    target.seal_bytes = seal_size_bytes(target.chunk_count);
    target.file_bytes = target.seal_offset + target.seal_bytes;
}

void entry_cursor::fill_bytes(entry& ret_entry, std::string name, uint64_t file_offset, uint64_t size_bytes) {
    size_bytes_ = size_bytes;
    ret_entry.name = std::move(name);
    ret_entry.type = dtype_name(dtype::u8);
    ret_entry.shape = std::span(&size_bytes_, 1);
    ret_entry.begin = file_offset - header_bytes_;
    ret_entry.end = ret_entry.begin + size_bytes;
}

bool entry_cursor::next(entry& ret_entry) {
    while (range_ < pack_.ranges.size()) {
        const placed_range& where = pack_.ranges[range_];
        if (shard_ == 0) prefix_ = rank_prefix(where.what.rank);
        if (shard_ < where.what.shards.size()) {
            const shard& each = where.what.shards[shard_++];
            ret_entry.name.assign(prefix_).append(each.name);
            ret_entry.type = dtype_name(each.type);
            ret_entry.shape = each.shape;
            ret_entry.begin = where.file_offset - header_bytes_ + each.offset_bytes;
            ret_entry.end = ret_entry.begin + each.size_bytes;
            return true;
        }
        shard_ = 0;
        range_++;
        const uint64_t padding = where.what.size_bytes - where.what.data_bytes;
        if (padding != 0) {
            fill_bytes(ret_entry, "varde.pad/" + prefix_.substr(0, prefix_.size() - 1),
                       where.file_offset + where.what.data_bytes, padding);
            return true;
        }
    }
    if (sealed_) return false;
    sealed_ = true;
    fill_bytes(ret_entry, "varde.seal", pack_.seal_offset, pack_.seal_bytes);
    return true;
}

}  // namespace varde::pack
