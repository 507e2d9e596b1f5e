// How many transfers in flight, and how large: the table beside the agent's constants.
//
// Through the agent's engine, registered and with O_DIRECT, into a new file of reserved room each time, as a pack is
// written; the read is of the same file.  Only where it is asked for by name: it takes two minutes and has no goal.
#include "peers.h"
#include "trainer.h"

#include "base/clock.h"
#include "io/engine.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <unistd.h>

namespace varde::bench {

namespace {

constexpr uint64_t size_bytes = 1ULL << 30;
constexpr unsigned rounds = 5;
constexpr uint64_t wait_ms = 60'000;
constexpr uint32_t depths[] = {4, 8, 16, 32, 64};
constexpr uint64_t blocks[] = {1ULL << 20, 2ULL << 20, 4ULL << 20, 8ULL << 20, 16ULL << 20};

result<void> move(io::engine& engine, io::operation what, int fd, const mapping& memory, uint64_t block_bytes) {
    const auto collect = [&](uint32_t least) -> result<void> {
        const auto done = engine.wait(least, deadline::in_ms(wait_ms));
        if (!done) return done.error();
        for (const io::completion& each : *done) {
            if (each.os_errno != 0) return os_error(each.os_errno, "couldn't move a block");
        }
        return {};
    };
    for (uint64_t at = 0; at < size_bytes; at += block_bytes) {
        if (engine.full()) {
            if (const result<void> done = collect(1); !done) return done;
        }
        if (const result<void> sent = engine.submit({what, fd, memory.data() + at, block_bytes, at, at}); !sent)
            return sent;
    }
    return collect(engine.in_flight());
}

struct speeds {
    std::vector<double> write, read;  // GB/s
};

result<void> measure(const settings& with, const mapping& memory, uint32_t depth, uint64_t block_bytes, speeds& to) {
    result<io::engine> engine =
        io::engine::open({.depth = depth, .buffers = {{memory.data(), memory.size_bytes()}}, .use_ring = true});
    if (!engine) return engine.error();
    const std::string path = with.directory + "/depth";
    const unique_fd file(::open(path.c_str(), O_CREAT | O_TRUNC | O_RDWR | O_DIRECT | O_CLOEXEC, 0600));
    if (!file || ::fallocate(file.get(), 0, 0, size_bytes) != 0)
        return os_error(errno, "couldn't create '" + path + "'");
    const io::held_file held(*engine, file.get());
    const auto gigabytes_per_s = [](uint64_t start_ns) { return size_bytes / seconds_since(start_ns) / 1e9; };
    uint64_t start = mono_ns();
    if (const result<void> done = move(*engine, io::operation::write, file.get(), memory, block_bytes); !done)
        return done;
    if (::fsync(file.get()) != 0) return os_error(errno, "couldn't sync '" + path + "'");
    to.write.push_back(gigabytes_per_s(start));
    start = mono_ns();
    if (const result<void> done = move(*engine, io::operation::read, file.get(), memory, block_bytes); !done)
        return done;
    to.read.push_back(gigabytes_per_s(start));
    ::unlink(path.c_str());
    return {};
}

}  // namespace

result<figures> depth_table(const settings& with) {
    const result<mapping> memory = map_memory(size_bytes);
    if (!memory) return memory.error();
    fill(*memory);
    speeds measured[std::size(blocks)][std::size(depths)];
    for (unsigned round = 0; round < rounds; ++round) {
        progress("depths: round " + std::to_string(round) + " of " + std::to_string(rounds));
        for (size_t block = 0; block < std::size(blocks); ++block) {
            for (size_t depth = 0; depth < std::size(depths); ++depth) {
                const result<void> done = measure(with, *memory, depths[depth], blocks[block], measured[block][depth]);
                if (!done) return done.error();
            }
        }
    }
    progress("");
    std::printf("GB/s written and synced / read, median of %u\nin flight", rounds);
    for (const uint32_t depth : depths) std::printf(" %11u", depth);
    for (size_t block = 0; block < std::size(blocks); ++block) {
        std::printf("\n%5lu MiB", static_cast<unsigned long>(blocks[block] >> 20));
        for (const speeds& each : measured[block])
            std::printf("  %4.2f / %4.2f", median(each.write), median(each.read));
    }
    std::printf("\n");
    return figures{};
}

}  // namespace varde::bench
