// One thread per rank for what waits for the other ranks; the rest is called rank by rank.
#include "trainer.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/units.h"

#include <cstring>
#include <sys/mman.h>
#include <thread>

namespace varde::bench {

namespace {

constexpr uint32_t durable_wait_ms = 120'000;

failure why_failed(varde_run* run, int what) { return fail(static_cast<code>(what), varde_error_text(run)); }

// Room for everything at once, in whole chunks.
uint64_t arena_bytes(const trainer_options& wanted) {
    const uint64_t rank_bytes = wanted.size_bytes / wanted.ranks + limits::page_bytes;
    return wanted.ranks * align_up(rank_bytes, limits::chunk_bytes_default);
}

}  // namespace

result<mapping> map_memory(uint64_t size_bytes) {
    void* at = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED) return os_error(errno, "couldn't map " + format_bytes(size_bytes));
    return mapping(at, size_bytes);
}

void fill(const mapping& memory) {
    uint64_t state = 88172645463325252ULL;
    for (size_t i = 0; i + 8 <= memory.size_bytes(); i += 8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        std::memcpy(memory.data() + i, &state, 8);
    }
}

result<std::unique_ptr<trainer>> trainer::start(const settings& with, const trainer_options& wanted) {
    result<agent_process> agent = agent_process::start(with, arena_bytes(wanted), wanted.cpu);
    if (!agent) return agent.error();
    std::unique_ptr<trainer> made(new trainer(std::move(*agent)));
    result<mapping> memory = map_memory(wanted.size_bytes);
    if (!memory) return memory.error();
    made->memory_ = std::move(*memory);
    fill(made->memory_);
    made->launch_ = "bench " + made->agent_.socket();
    made->runs_.resize(wanted.ranks);
    const result<void> opened = on_cpu(wanted.cpu, [&]() -> result<void> {  // copy threads start on these CPUs
        for (uint32_t rank = 0; rank < wanted.ranks; ++rank) {
            if (const result<void> one = made->open(with, wanted, rank); !one) return one;
        }
        return {};
    });
    if (!opened) return opened.error();
    if (const result<void> quiet = made->agent_.wait_until_quiet(); !quiet) return quiet.error();
    return made;
}

result<void> trainer::open(const settings& with, const trainer_options& wanted, uint32_t rank) {
    varde_options options = VARDE_OPTIONS_INIT;
    options.directory = with.directory.c_str();
    options.name = wanted.name.c_str();
    options.socket = agent_.socket().c_str();
    options.launch = launch_.c_str();
    options.interval_s = 0;
    options.rank = options.local_rank = static_cast<int32_t>(rank);
    options.world = options.local_count = static_cast<int32_t>(wanted.ranks);
    options.node_index = 0;
    options.node_count = 1;
    if (const int opened = varde_open(&options, &runs_[rank]); opened != VARDE_OK) return why_failed(nullptr, opened);
    return register_tensors(wanted, rank);
}

result<void> trainer::register_tensors(const trainer_options& wanted, uint32_t rank) {
    const uint64_t tensor_bytes = wanted.size_bytes / wanted.ranks / wanted.tensors;
    std::byte* data = memory_.data() + rank * tensor_bytes * wanted.tensors;
    for (uint32_t tensor = 0; tensor < wanted.tensors; ++tensor, data += tensor_bytes) {
        const std::string name = "model.layers." + std::to_string(tensor) + ".rank" + std::to_string(rank) + ".weight";
        varde_shard shard{};
        shard.size = sizeof shard;
        shard.name = name.c_str();
        shard.dtype = VARDE_U8;
        shard.dims = 1;
        shard.shape = &tensor_bytes;
        shard.data = data;
        if (const int taken = varde_register(runs_[rank], &shard); taken != VARDE_OK)
            return why_failed(runs_[rank], taken);
    }
    return {};
}

result<void> trainer::on_each_rank(const std::function<int(uint32_t)>& call) {
    for (uint32_t rank = 0; rank < runs_.size(); ++rank) {
        if (const int done = call(rank); done != VARDE_OK) return why_failed(runs_[rank], done);
    }
    return {};
}

result<uint64_t> trainer::restore() {
    std::vector<uint64_t> steps(runs_.size(), 0);
    std::vector<int> outcomes(runs_.size(), 0);
    std::vector<std::thread> ranks;
    for (size_t rank = 0; rank < runs_.size(); ++rank)
        ranks.emplace_back([&, rank] { outcomes[rank] = varde_restore(runs_[rank], &steps[rank]); });
    for (std::thread& rank : ranks) rank.join();
    const result<void> all = on_each_rank([&](uint32_t rank) { return outcomes[rank]; });
    if (!all) return all.error();
    return steps.front();
}

result<void> trainer::save(uint64_t step) {
    return on_each_rank([&](uint32_t rank) { return varde_save(runs_[rank], step); });
}
result<void> trainer::fence() {
    return on_each_rank([&](uint32_t rank) { return varde_fence(runs_[rank]); });
}
result<void> trainer::wait(uint32_t timeout_ms) {
    return on_each_rank([&](uint32_t rank) { return varde_wait(runs_[rank], timeout_ms); });
}

result<double> trainer::save_durably(uint64_t step) {
    const uint64_t start = mono_ns();
    if (const result<void> saved = save(step); !saved) return saved.error();
    if (const result<void> fenced = fence(); !fenced) return fenced.error();
    if (const result<void> durable = wait(durable_wait_ms); !durable) return durable.error();
    return seconds_since(start);
}

result<void> trainer::close() {
    int worst = VARDE_OK;
    for (varde_run*& run : runs_) {
        const int closed = varde_close(std::exchange(run, nullptr));
        if (closed != VARDE_OK) worst = closed;
    }
    if (worst != VARDE_OK) return why_failed(nullptr, worst);
    return agent_.wait_for_end();
}

trainer::~trainer() {
    for (varde_run* run : runs_) discard(varde_close(run), "close() is what tells; this is a figure that failed");
}

}  // namespace varde::bench
