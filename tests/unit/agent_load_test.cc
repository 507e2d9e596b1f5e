// The load: every registered byte gets what was saved, on any number of ranks, or everybody hears why not.
#include "agent/load.h"

#include "agent_support.h"

#include <condition_variable>
#include <map>

using namespace agent_test;

namespace {

constexpr uint64_t chunk_bytes = 8192;
constexpr uint64_t rows = 600;     // of the tensor that is split by rows
constexpr uint64_t columns = 101;  // so that no piece ends at a chunk

// The saved tensor's byte at a flat index, and one rank's rows of it.
std::byte tensor_byte(uint64_t index) { return byte_at(42, index); }
struct part {
    uint64_t first = 0, count = 0;
};
part part_of(uint32_t rank, uint32_t world) {
    return {rows * rank / world, rows * (rank + 1) / world - rows * rank / world};
}

pack::range range_of(uint32_t rank, uint32_t world) {
    const part mine = part_of(rank, world);
    std::vector<pack::shard> shards{
        {"w", pack::dtype::u8, {mine.count, columns}, {rows, columns}, {mine.first, 0}, 0, 0},
        {"shared", pack::dtype::f32, {33}, {}, {}, 0, 0}};
    return need(pack::arrange(rank, std::move(shards)));
}

std::vector<std::byte> wanted_bytes(const pack::range& range, uint32_t rank, uint32_t world) {
    std::vector<std::byte> bytes(range.size_bytes);
    for (const auto& shard : range.shards) {
        const uint64_t first = shard.name == "w" ? part_of(rank, world).first * columns : 1'000'000;
        for (uint64_t i = 0; i < shard.size_bytes; i++) bytes[shard.offset_bytes + i] = tensor_byte(first + i);
    }
    return bytes;
}

// Writes generation step 100 of `nodes` nodes with `per_node` ranks each.
void write_generation(store::run_directory& run, uint32_t nodes, uint32_t per_node) {
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

std::string pack_path(const store::run_directory& run, uint32_t node, uint32_t nodes) {
    return run.path() + "/" + store::generation_name(id_of(100, 1)) + "/" + store::pack_name(node, nodes);
}

void flip_byte(const std::string& path, uint64_t offset) {
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

    int deaf_rank = -1;  // takes no chunk
    int cancel_after_ms = -1;
    bool forged = false;
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

}  // namespace

Test(agent_load, gives_every_rank_what_it_saved) {
    saved s(2, 2);
    for (const bool use_ring : {true, false}) {
        for (const uint64_t places : {1, 2, 64}) {
            for (uint32_t node = 0; node < 2; node++) {
                node_that_loads n(s.run, node, 2, 2, 2, places, use_ring);
                need(n.carry_out());
                n.check_memory();
            }
        }
    }
}

Test(agent_load, gives_another_number_of_ranks_and_nodes_their_parts) {
    saved s(2, 2);
    for (const auto& [nodes, per_node] : {std::pair{1U, 1U}, {1U, 3U}, {3U, 1U}, {2U, 3U}, {5U, 2U}}) {
        for (uint32_t node = 0; node < nodes; node++) {
            node_that_loads n(s.run, node, nodes, per_node, 2, 3);
            need(n.carry_out());
            n.check_memory();
        }
    }
}

// With one place per slab, a rank that answers at once always answers in between.
Test(agent_load, never_waits_for_an_answer_that_has_come) {
    saved s(1, 2);
    for (int round = 0; round < 40; round++) {
        node_that_loads n(s.run, 0, 1, 2, 1, 1);
        n.job_.rank_wait_ms = 1500;
        need(n.carry_out());
    }
}

// A slab at an odd address: the kernel refuses each read that is O_DIRECT, though the header's went well.
Test(agent_load, reads_through_the_page_cache_where_a_read_refuses_o_direct) {
    saved s(1, 2);
    for (const bool use_ring : {true, false}) {
        node_that_loads n(s.run, 0, 1, 2, 1, 4, use_ring);
        for (auto& target : n.job_.targets) {
            target.slab += 1;
            target.slab_bytes -= chunk_bytes;
        }
        need(n.carry_out());
        n.check_memory();
    }
}

Test(agent_load, finds_a_damaged_chunk_and_names_it) {
    saved s(1, 1);
    const std::string path = pack_path(s.run, 0, 1);
    flip_byte(path, 4096 + 3 * chunk_bytes + 17);  // the header has one page
    node_that_loads n(s.run, 0, 1, 1, 1, 4);
    const auto done = n.carry_out();
    refused(done, code::damaged, path.c_str());
    cr_assert(done.error().context.find("chunk 3") != std::string::npos, "%s", done.error().context.c_str());
}

Test(agent_load, a_missing_or_cut_or_foreign_pack_is_damage) {
    saved s(2, 1);
    const std::string path = pack_path(s.run, 1, 2);
    std::filesystem::copy_file(pack_path(s.run, 0, 2), path, std::filesystem::copy_options::overwrite_existing);
    refused(node_that_loads(s.run, 1, 2, 1, 2, 4).carry_out(), code::damaged, "another generation or node");
    cr_assert_eq(::truncate(path.c_str(), 4096 * 3), 0);
    refused(node_that_loads(s.run, 1, 2, 1, 2, 4).carry_out(), code::damaged, path.c_str());
    cr_assert_eq(::truncate(path.c_str(), 100), 0);
    refused(node_that_loads(s.run, 1, 2, 1, 2, 4).carry_out(), code::damaged, path.c_str());
    cr_assert_eq(::unlink(path.c_str()), 0);
    refused(node_that_loads(s.run, 1, 2, 1, 2, 4).carry_out(), code::damaged, "is missing");
    need(node_that_loads(s.run, 0, 2, 1, 2, 4).carry_out());
}

Test(agent_load, a_tensor_that_was_not_saved_is_a_mismatch) {
    saved s(1, 1);
    node_that_loads n(s.run, 0, 1, 1, 1, 4);
    n.job_.targets[0].wanted = need(pack::arrange(0, {{"new", pack::dtype::u8, {5}, {}, {}, 0, 0}}));
    refused(n.carry_out(), code::mismatch, "new");
}

Test(agent_load, a_slab_smaller_than_a_chunk_is_refused) {
    saved s(1, 1);
    node_that_loads n(s.run, 0, 1, 1, 1, 4);
    n.job_.targets[0].slab_bytes = chunk_bytes / 2;
    refused(n.carry_out(), code::no_memory, "--ckpt-memory");
}

Test(agent_load, ends_when_a_rank_takes_no_chunk) {
    saved s(1, 2);
    node_that_loads n(s.run, 0, 1, 2, 1, 2);
    n.deaf_rank = 1;
    n.job_.rank_wait_ms = 200;
    const uint64_t start_ns = mono_ns();
    refused(n.carry_out(), code::timeout);
    cr_assert(mono_ns() - start_ns < 8 * ns_per_s);
}

Test(agent_load, ends_when_a_rank_is_gone) {
    saved s(1, 2);
    node_that_loads n(s.run, 0, 1, 2, 1, 2);
    n.deaf_rank = 0;
    n.cancel_after_ms = 50;
    refused(n.carry_out(), code::unavailable);
}

// Answers to an earlier attempt's chunks may come while this one reads into the same places.
Test(agent_load, tickets_that_are_not_due_free_no_place) {
    saved s(1, 2);
    for (int round = 0; round < 10; round++) {
        node_that_loads n(s.run, 0, 1, 2, 1, 3);
        n.forged = true;
        need(n.carry_out());
        n.check_memory();
    }
}

Test(agent_load, cuts_pieces_at_the_chunks_of_their_source) {
    std::vector<load_source> sources(2);
    sources[0].image.chunk_bytes = 100;
    sources[1].image.chunk_bytes = 40;
    const std::vector<range_origin> origin{{0, 0}, {0, 1}, {1, 0}};
    const std::vector<pack::piece> pieces{
        {0, 0, 0, 90, 30}, {1, 5, 0, 120, 10}, {0, 30, 1, 0, 100}, {2, 0, 2, 39, 2}, {2, 2, 2, 41, 0}};
    const auto steps = cut_into_steps(pieces, origin, sources);
    cr_assert_eq(steps.size(), 5);
    const auto is = [&](size_t i, uint32_t source, uint32_t range, uint64_t chunk, size_t copies) {
        cr_assert(steps[i].source == source && steps[i].range == range && steps[i].chunk_in_range == chunk &&
                      steps[i].copies.size() == copies,
                  "step %zu", i);
    };
    is(0, 0, 0, 0, 1);
    is(1, 0, 0, 1, 2);
    is(2, 0, 1, 0, 1);
    is(3, 1, 0, 0, 1);
    is(4, 1, 0, 1, 1);
    const auto& second = steps[1].copies[1];
    cr_assert(second.shard_index == 1 && second.shard_offset == 5 && second.place_offset == 20 &&
              second.size_bytes == 10);
    cr_assert(steps[1].copies[0].shard_offset == 10 && steps[1].copies[0].place_offset == 0 &&
              steps[1].copies[0].size_bytes == 20);
    cr_assert(cut_into_steps({}, origin, sources).empty());
}
