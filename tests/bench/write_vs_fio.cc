// A checkpoint of one node, by the agent's own drain, against fio: the same directory, size, block size, depth and
// O_DIRECT, in turns.
//
// The drain's time is everything that makes the generation durable: reservation, checksums, writes, fsync, rename and
// the commit record.  fio's is its writes and one fsync; its file is laid out before its clock starts.
#include "figure.h"

#include "agent/drain.h"
#include "agent/log.h"
#include "base/clock.h"
#include "base/process.h"
#include "base/units.h"
#include "io/engine.h"
#include "store/store.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <unistd.h>

namespace varde::bench {

namespace {

constexpr uint64_t chunk_bytes = limits::chunk_bytes_default;
constexpr uint32_t depth = 32;

struct staged {
    mapping arena;
    mapping control;
};

result<mapping> map_memory(uint64_t size_bytes) {
    void* at = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED) return os_error(errno, "couldn't map " + format_bytes(size_bytes));
    return mapping(at, size_bytes);
}

// Bytes that no storage can compress.
void fill(const mapping& memory) {
    uint64_t state = 88172645463325252ULL;
    for (size_t i = 0; i + 8 <= memory.size_bytes(); i += 8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        std::memcpy(memory.data() + i, &state, 8);
    }
}

result<pack::image> make_image(uint64_t size_bytes, uint64_t step) {
    pack::shard shard;
    shard.name = "weights";
    shard.type = pack::dtype::u8;
    shard.shape = {size_bytes};
    result<pack::range> range = pack::arrange(0, {shard});
    if (!range) return range.error();
    return pack::compose({.run = "run",
                          .step = step,
                          .incarnation = 1,
                          .node_index = 0,
                          .node_count = 1,
                          .world = 1,
                          .library = "bench"},
                         {std::move(*range)}, chunk_bytes);
}

// Writes one generation from staged memory and returns the seconds until it was committed.
result<double> write_generation(store::run_directory& run, io::engine& engine, const staged& memory, agent::logger& log,
                                uint64_t step) {
    result<pack::image> image = make_image(memory.arena.size_bytes(), step);
    if (!image) return image.error();
    auto* rank = arena::rank_of(memory.control.data(), 0);
    const uint64_t chunks = image->chunk_count;
    rank->staged = chunks;
    rank->released = 0;
    agent::drain_job job;
    job.id = {step, 1};
    job.image = std::move(*image);
    job.sources = {{rank, memory.arena.data(), chunks, 0, chunks}};
    bool direct_refused = false;
    const uint64_t start = mono_ns();
    const agent::drain_outcome outcome =
        agent::drain(run, engine, arena::node_of(memory.control.data()), log, direct_refused).carry_out(job);
    if (!outcome.sealed) return outcome.why;
    if (direct_refused)
        return fail(code::unavailable, "the file system refuses O_DIRECT: the comparison would mean nothing");
    store::manifest record{
        .run = "run", .id = job.id, .world = 1, .packs = {}, .wall_ns = wall_ns(), .library = "bench"};
    record.packs.push_back({0, job.image.file_bytes, outcome.seal_checksum, "bench"});
    if (const result<void> committed = run.commit(record); !committed) return committed.error();
    const double took = seconds_since(start);
    if (const result<uint32_t> retired = run.retire(1, job.id); !retired) return retired.error();
    return took;
}

// Seconds that fio needs for as many bytes.
result<double> run_fio(const settings& with, bool ring) {
    program fio;
    fio.arguments = {"/usr/bin/fio",
                     "--name=varde",
                     "--directory=" + with.directory,
                     "--rw=write",
                     "--direct=1",
                     "--end_fsync=1",
                     "--size=" + std::to_string(with.size_bytes),
                     "--bs=" + std::to_string(chunk_bytes),
                     "--iodepth=" + std::to_string(depth),
                     ring ? "--ioengine=io_uring" : "--ioengine=psync",
                     "--unlink=1",
                     "--output-format=json"};
    if (ring) fio.arguments.emplace_back("--fixedbufs=1");
    fio.timeout_ms = 600'000;
    const result<program_outcome> ran = run_program(fio);
    if (!ran) return ran.error();
    const auto answer = nlohmann::json::parse(ran->output, nullptr, false);
    if (ran->exit_status != 0 || answer.is_discarded() || !answer.contains("jobs"))
        return fail(code::unavailable,
                    "fio failed (status " + std::to_string(ran->exit_status) + "): " + ran->output.substr(0, 300));
    const double took_s = answer["jobs"][0].value("job_runtime", 0.0) / 1000;
    if (took_s <= 0) return fail(code::unavailable, "fio has not said how long it took");
    return took_s;
}

}  // namespace

result<figure> write_vs_fio(const settings& with) {
    result<mapping> arena = map_memory(with.size_bytes), control = map_memory(arena::control_bytes);
    if (!arena) return arena.error();
    if (!control) return control.error();
    const staged memory{std::move(*arena), std::move(*control)};
    fill(memory.arena);
    result<io::engine> engine = io::engine::open(
        {.depth = depth, .buffers = {{memory.arena.data(), memory.arena.size_bytes()}}, .use_ring = true});
    if (!engine) return engine.error();
    result<store::run_directory> run = store::run_directory::open(with.directory + "/write", "run", true);
    if (!run) return run.error();
    agent::logger log("bench");
    const bool ring = engine->description().starts_with("io_uring");
    std::vector<double> ratios, speeds;
    // The first pair warms up: files grow into fresh blocks, the device leaves its power save.
    for (unsigned pair = 0; pair <= with.pairs; ++pair) {
        progress("write_vs_fio: pair " + std::to_string(pair) + " of " + std::to_string(with.pairs));
        double ours = 0, theirs = 0;
        for (unsigned turn = 0; turn < 2; ++turn) {  // each goes first in every other pair
            const bool fio_now = (turn + pair) % 2 != 0;
            const result<double> took =
                fio_now ? run_fio(with, ring) : write_generation(*run, *engine, memory, log, pair + 1);
            if (!took) return took.error();
            (fio_now ? theirs : ours) = *took;
        }
        if (pair == 0) continue;
        ratios.push_back(theirs / ours);
        speeds.push_back(static_cast<double>(with.size_bytes) / ours);
    }
    const std::string remark = format_bytes(with.size_bytes) + " at " +
                               format_bytes(static_cast<uint64_t>(median(speeds))) + "/s; " + engine->description();
    return figure{"write_vs_fio", "", median(ratios), 0.95, true, with.pairs, remark};
}

}  // namespace varde::bench
