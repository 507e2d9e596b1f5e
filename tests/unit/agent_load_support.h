// What the tests of the load share: a generation on storage, and a node whose ranks take what is loaded.
#pragma once

#include "agent/load.h"

#include "agent_support.h"

#include <condition_variable>
#include <map>

namespace agent_test {

constexpr uint64_t chunk_bytes = 8192;
constexpr uint64_t rows = 600;     // of the tensor that is split by rows
constexpr uint64_t columns = 101;  // so that no piece ends at a chunk

// The saved tensor's byte at a flat index, and one rank's rows of it.
inline std::byte tensor_byte(uint64_t index) { return byte_at(42, index); }
struct part {
    uint64_t first = 0, count = 0;
};
inline part part_of(uint32_t rank, uint32_t world) {
    return {rows * rank / world, rows * (rank + 1) / world - rows * rank / world};
}

inline pack::range range_of(uint32_t rank, uint32_t world) {
    const part mine = part_of(rank, world);
    std::vector<pack::shard> shards{
        {"w", pack::dtype::u8, {mine.count, columns}, {rows, columns}, {mine.first, 0}, 0, 0},
        {"shared", pack::dtype::f32, {33}, {}, {}, 0, 0}};
    return need(pack::arrange(rank, std::move(shards)));
}

inline std::vector<std::byte> wanted_bytes(const pack::range& range, uint32_t rank, uint32_t world) {
    std::vector<std::byte> bytes(range.size_bytes);
    for (const auto& shard : range.shards) {
        const uint64_t first = shard.name == "w" ? part_of(rank, world).first * columns : 1'000'000;
        for (uint64_t i = 0; i < shard.size_bytes; i++) bytes[shard.offset_bytes + i] = tensor_byte(first + i);
    }
    return bytes;
}

// Writes generation step 100 of `nodes` nodes with `per_node` ranks each.
inline void write_generation(store::run_directory& run, uint32_t nodes, uint32_t per_node) {
    const uint32_t world = nodes * per_node;
    for (uint32_t node = 0; node < nodes; node++) {
        std::vector<pack::range> ranges;
        for (uint32_t i = 0; i < per_node; i++) ranges.push_back(range_of(node * per_node + i, world));
        const auto image = need(pack::compose(identity_of(100, 1, node, nodes, world), ranges, chunk_bytes));
        std::vector<std::byte> file(image.file_bytes);
        std::memcpy(file.data(), image.header.data(), image.header.size());
        std::vector<uint64_t> sums;
        for (const auto& placed : image.ranges) {
            const auto bytes = wanted_bytes(placed.what, placed.what.rank, world);
            std::memcpy(file.data() + placed.file_offset, bytes.data(), bytes.size());
            for (uint64_t at = 0; at < bytes.size(); at += chunk_bytes) {
                sums.push_back(pack::checksum(std::span(bytes).subspan(at, std::min(chunk_bytes, bytes.size() - at))));
            }
        }
        const auto seal = pack::make_seal(image, sums);
        std::memcpy(file.data() + image.seal_offset, seal.data(), seal.size());
        auto pack = need(run.create_pack(id_of(100, 1), node, nodes, file.size()));
        need(pack.use_buffered());
        cr_assert_eq(::pwrite(pack.fd(), file.data(), file.size(), 0), static_cast<ssize_t>(file.size()));
        need(pack.seal());
    }
}

inline std::string pack_path(const store::run_directory& run, uint32_t node, uint32_t nodes) {
    return run.path() + "/" + store::generation_name(id_of(100, 1)) + "/" + store::pack_name(node, nodes);
}

inline void flip_byte(const std::string& path, uint64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const char before = static_cast<char>(file.get());
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(static_cast<char>(before ^ 1));
}

// The ranks of one node that load: each takes its chunks on a thread of its own.
class node_that_loads {
public:
    node_that_loads(store::run_directory& from, uint32_t node, uint32_t nodes, uint32_t per_node, uint32_t saved_nodes,
                    uint64_t places, bool use_ring = true)
        : pages_(per_node * places * chunk_bytes), engine_(open_engine(pages_, use_ring)), world_(nodes * per_node),
          first_rank_(node * per_node) {
        load_job job;
        job.id = id_of(100, 1);
        job.node_index = node;
        job.node_count = nodes;
        job.world = world_;
        job.saved_node_count = saved_nodes;
        job.attempt = 3;
        job.rank_wait_ms = 3000;
        for (uint32_t i = 0; i < per_node; i++) {
            const auto range = range_of(first_rank_ + i, world_);
            memory_.emplace_back(range.size_bytes);
            ranges_.push_back(range);
            job.targets.push_back({i, range, pages_.slab(i, places * chunk_bytes), places * chunk_bytes});
        }
        job_ = job;
        run_ = &from;
    }

    result<void> carry_out() {
        load work(
            *run_, job_, [this](uint32_t rank, arena::restore_chunk chunk) { receive(rank, std::move(chunk)); }, log_);
        work_ = &work;
        std::deque<std::thread> ranks;
        for (uint32_t i = 0; i < memory_.size(); i++) ranks.emplace_back([this, i] { serve(i); });
        if (cancel_after_ms >= 0) {
            ranks.emplace_back([this] {
                std::this_thread::sleep_for(std::chrono::milliseconds(cancel_after_ms));
                work_->cancel();
            });
        }
        auto done = work.carry_out(engine_);
        memory_bytes = work.memory_bytes();
        storage_bytes = work.storage_bytes();
        {
            const std::lock_guard guard(mutex_);
            over_ = true;
        }
        changed_.notify_all();
        for (auto& rank : ranks) rank.join();
        return done;
    }
    void check_memory() const {
        for (uint32_t i = 0; i < memory_.size(); i++)
            cr_assert(memory_[i] == wanted_bytes(ranges_[i], first_rank_ + i, world_), "rank %u", first_rank_ + i);
    }

    // Puts the ranks' own bytes into the slabs as their save has left them, from chunk `first` of each ring on.
    void hold(uint64_t first) {
        job_.held = {job_.id, chunk_bytes, {}, job_.node_index};
        for (const auto& target : job_.targets) {
            const uint64_t places = target.slab_bytes / chunk_bytes;
            const auto bytes = wanted_bytes(target.wanted, target.wanted.rank, world_);
            const uint64_t count = pack::chunk_count(bytes.size(), chunk_bytes);
            for (uint64_t i = 0; i < std::min(count, places); i++) {
                const uint64_t size = std::min<uint64_t>(chunk_bytes, bytes.size() - i * chunk_bytes);
                std::memcpy(target.slab + (first + i) % places * chunk_bytes, bytes.data() + i * chunk_bytes, size);
            }
            job_.held.ranges.push_back({target.wanted.rank, target.slab, places, first, count});
        }
    }

    int deaf_rank = -1;  // takes no chunk
    int cancel_after_ms = -1;
    bool forged = false;
    uint64_t memory_bytes = 0;  // of what was carried out
    uint64_t storage_bytes = 0;
    load_job job_;

private:
    void receive(uint32_t rank, arena::restore_chunk chunk) {
        {
            const std::lock_guard guard(mutex_);
            inbox_[rank].push_back(std::move(chunk));
        }
        changed_.notify_all();
    }
    void serve(uint32_t rank) {
        for (;;) {
            arena::restore_chunk chunk;
            {
                std::unique_lock lock(mutex_);
                changed_.wait(lock, [&] { return over_ || !inbox_[rank].empty(); });
                if (inbox_[rank].empty()) return;
                chunk = std::move(inbox_[rank].front());
                inbox_[rank].pop_front();
            }
            if (static_cast<int>(rank) == deaf_rank) continue;
            if (forged) {  // of an earlier attempt, of places that are being filled, of no place at all
                for (uint64_t place = 0; place < 70; place++) work_->taken(rank, place);
                work_->taken(rank, UINT64_MAX);
                work_->taken(99, chunk.ticket);
            }
            const auto& job = job_.targets[rank];
            for (const auto& copy : chunk.copies) {
                cr_assert(copy.place_offset + copy.size_bytes <= job.slab_bytes);
                const auto& shard = ranges_[rank].shards[copy.shard_index];
                cr_assert(copy.shard_offset + copy.size_bytes <= shard.size_bytes);
                std::memcpy(memory_[rank].data() + shard.offset_bytes + copy.shard_offset, job.slab + copy.place_offset,
                            copy.size_bytes);
            }
            work_->taken(rank, chunk.ticket);
        }
    }

    node_pages pages_;
    io::engine engine_;
    uint32_t world_;
    uint32_t first_rank_;
    store::run_directory* run_ = nullptr;
    load* work_ = nullptr;
    std::vector<pack::range> ranges_;
    std::vector<std::vector<std::byte>> memory_;
    std::mutex mutex_;
    std::condition_variable changed_;
    logger log_{"test"};
    std::map<uint32_t, std::deque<arena::restore_chunk>> inbox_;
    bool over_ = false;
};

struct saved {
    explicit saved(uint32_t nodes, uint32_t per_node) : run(store_test::open_run(in)) {
        write_generation(run, nodes, per_node);
    }
    temporary_directory in;
    store::run_directory run;
};

}  // namespace agent_test
