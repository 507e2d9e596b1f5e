// Copying out of the slab.
#include "client/restore.h"

#include "base/checked.h"
#include "client/copy_bytes.h"
#include "gpu/flight.h"

#include <algorithm>

namespace varde::client {

namespace {

constexpr uint64_t alone_bytes_max = 1 << 20;  // below it, waking the crew takes longer than the copying
constexpr uint64_t part_bytes = 512 << 10;     // of a chunk of 4 MiB, so that four threads have two each

struct part {
    std::byte* target = nullptr;
    const std::byte* source = nullptr;
    uint64_t size_bytes = 0;
};

void copy_part(void* parts, uint64_t index) {
    const part& one = (*static_cast<const std::vector<part>*>(parts))[index];
    copy_bytes(one.target, one.source, one.size_bytes);
}

void copy_on_host(crew& hands, std::vector<part>& parts) {
    uint64_t total = 0;
    for (const part& each : parts) total += each.size_bytes;
    if (total <= alone_bytes_max) {
        for (uint64_t i = 0; i < parts.size(); i++) copy_part(&parts, i);
        return;
    }
    hands.begin(parts.size(), copy_part, &parts);
    hands.wait();
}

// The host copies its part while the GPUs are at theirs.
result<void> copy_out(const copyists& with, const std::vector<arena::copy>& copies, const arranged_range& target,
                      std::span<const std::byte> slab) {
    std::vector<part> parts;  // first: it may find no memory, and then nothing must be under way
    for (const arena::copy& each : copies) {
        const memory& where = target.data[each.shard_index];
        if (where.by != nullptr) continue;
        for (uint64_t done = 0; done < each.size_bytes; done += part_bytes)
            parts.push_back({where.data + each.shard_offset + done, slab.data() + each.place_offset + done,
                             std::min(part_bytes, each.size_bytes - done)});
    }
    gpu::flight flight(with.gpus);
    for (const arena::copy& each : copies) {
        const memory& where = target.data[each.shard_index];
        if (where.by != nullptr)
            flight.to_device(*where.by, where.data + each.shard_offset, slab.data() + each.place_offset,
                             each.size_bytes);
    }
    copy_on_host(with.hands, parts);
    return flight.land();
}

failure wrong_agent(const std::string& what) {
    return fail(code::internal,
                "couldn't restore: the agent sent " + what + "; libvarde and varde-agent must be of one release");
}

}  // namespace

result<void> check_copies(const std::vector<arena::copy>& copies, const arranged_range& target, uint64_t slab_bytes) {
    for (const arena::copy& each : copies) {
        if (each.shard_index >= target.range.shards.size())
            return wrong_agent("bytes of a tensor that is not registered");
        const auto shard_end = checked_add(each.shard_offset, each.size_bytes);
        const auto place_end = checked_add(each.place_offset, each.size_bytes);
        if (!shard_end || *shard_end > target.range.shards[each.shard_index].size_bytes)
            return wrong_agent("bytes beyond the end of tensor '" + target.range.shards[each.shard_index].name + "'");
        if (!place_end || *place_end > slab_bytes) return wrong_agent("a place outside of this rank's memory");
    }
    return {};
}

result<arena::restored> restore_from(link& agent, const copyists& with, const arranged_range& target,
                                     std::span<const std::byte> slab, uint64_t silence_ms) {
    agent.begin_restore(arena::frame_of(arena::restore{target.version}));
    for (;;) {
        auto next = agent.receive(deadline::in_ms(silence_ms));
        if (!next) return std::move(next).error();
        if (next->what.type == arena::message::restored) {
            auto done = arena::decode<arena::restored>(next->what.payload);
            if (!done) return wrong_agent("a malformed answer");
            return *done;
        }
        const auto chunk = arena::decode<arena::restore_chunk>(next->what.payload);
        if (!chunk) return wrong_agent("a malformed chunk");
        if (auto good = check_copies(chunk->copies, target, slab.size()); !good) return std::move(good).error();
        if (auto copied = copy_out(with, chunk->copies, target, slab); !copied)
            return fail(copied.error().what, "couldn't restore: " + copied.error().context);
        agent.answer(arena::frame_of(arena::chunk_taken{chunk->ticket}), next->connection);
    }
}

}  // namespace varde::client
