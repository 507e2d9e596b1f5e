// The drain: staged chunks become a pack, byte for byte, or no pack at all.
#include "agent_support.h"
#include "forbid.h"
#include "store_mounts_support.h"

using namespace agent_test;

namespace {

constexpr uint64_t chunk_bytes = 8192;

// A rank that stages chunk after chunk, slowly, as far as the ring has room.
class stager {
public:
    stager(node_pages& pages, const drain_source& to, const std::vector<std::byte>& bytes,
           uint64_t stop_after = UINT64_MAX)
        : thread_([&pages, to, &bytes, stop_after, this] {
              for (uint64_t index = 0; index < std::min(to.chunk_count, stop_after) && !stop_; index++) {
                  const uint64_t chunk = to.first_chunk + index;
                  while (chunk - to.control->released.load() >= to.place_count && !stop_)
                      std::this_thread::sleep_for(std::chrono::microseconds(100));
                  const uint64_t begin = index * chunk_bytes;
                  std::memcpy(to.slab + (chunk % to.place_count) * chunk_bytes, bytes.data() + begin,
                              std::min(chunk_bytes, bytes.size() - begin));
                  to.control->staged.store(chunk + 1, std::memory_order_release);
                  arena::ring(pages.node()->doorbell);
                  if (index % 5 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
              }
          }) {}
    ~stager() {
        stop_ = true;
        finish();
    }
    void finish() {  // everything is staged
        if (thread_.joinable()) thread_.join();
    }
    stager(const stager&) = delete;
    stager& operator=(const stager&) = delete;

private:
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

// A node with ranks whose slabs have `places` chunks, and a run to write.
struct bench {
    bench(const std::string& directory, uint32_t ranks, uint64_t slab_places, bool use_ring = true)
        : places(slab_places), pages(ranks * places * chunk_bytes), engine(open_engine(pages, use_ring)), log("test"),
          run(need(store::run_directory::open(directory, "run", true))), next_chunk(ranks, 0) {}

    // Fills a job for ranges of these sizes; the chunks follow those of the job before.
    void prepare(drain_job& job, uint64_t step, const std::vector<uint64_t>& sizes) {
        std::vector<pack::range> ranges;
        data.clear();
        for (uint32_t rank = 0; rank < sizes.size(); rank++) {
            ranges.push_back(make_range(rank, sizes[rank]));
            data.push_back(bytes_of(ranges.back(), step * 100 + rank));
            const uint64_t count = pack::chunk_count(ranges.back().size_bytes, chunk_bytes);
            job.sources.push_back(
                {pages.control(rank), pages.slab(rank, places * chunk_bytes), places, next_chunk[rank], count});
            next_chunk[rank] += count;
        }
        job.id = {step, 1};
        job.image = need(pack::compose(identity_of(step, 1, 0, 1, static_cast<uint32_t>(sizes.size())),
                                       std::move(ranges), chunk_bytes));
        job.retry_pause_ms = {100, 200};
    }
    drain_outcome carry_out(drain_job& job) {
        return drain(run, engine, pages.node(), log, direct_refused, pace).carry_out(job);
    }
    // All ranks stage everything, the drain writes it.
    drain_outcome run_through(drain_job& job) {
        std::deque<stager> ranks;
        for (size_t i = 0; i < job.sources.size(); i++) ranks.emplace_back(pages, job.sources[i], data[i]);
        return carry_out(job);
    }
    std::string generation_path(const drain_job& job) const {
        return run.path() + "/" + store::generation_name(job.id);
    }
    std::string pack_path(const drain_job& job) const { return generation_path(job) + "/" + store::pack_name(0, 1); }
    size_t files_of(const drain_job& job) const {
        std::error_code none;
        size_t count = 0;
        for (const auto& entry : std::filesystem::directory_iterator(generation_path(job), none))
            count += entry.exists() ? 1 : 0;
        return count;
    }
    void check_released(const drain_job& job) {
        for (const auto& source : job.sources) cr_assert_eq(source.control->released.load(), source.end_chunk());
    }

    uint64_t places;
    node_pages pages;
    io::engine engine;
    logger log;
    store::run_directory run;
    bool direct_refused = false;
    io::pace pace;
    std::vector<uint64_t> next_chunk;
    std::vector<std::vector<std::byte>> data;
};

void check_sealed(bench& b, drain_job& job, const drain_outcome& outcome) {
    cr_assert(outcome.sealed, "%s", outcome.why.context.c_str());
    check_pack(b.pack_path(job), b.data);
    const std::string text = read_file(b.pack_path(job));
    cr_assert_eq(outcome.seal_checksum,
                 pack::checksum(std::as_bytes(std::span(text)).subspan(job.image.seal_offset, job.image.seal_bytes)));
    cr_assert_eq(job.bytes_done.load(), job.image.file_bytes);
    cr_assert_eq(b.files_of(job), 1, "no .partial is left");
    b.check_released(job);
}

}  // namespace

Test(agent_drain, writes_what_was_staged_with_every_shape_of_ring) {
    std::mt19937_64 random(7);
    for (const bool use_ring : {true, false}) {
        for (int round = 0; round < 3; round++) {
            const temporary_directory in;
            bench b(in.path(), 1 + static_cast<uint32_t>(random() % 4), 2 + random() % 9, use_ring);
            for (uint64_t step = 1; step <= 3;
                 step++) {  // one generation's chunks follow the other's in the same slabs
                drain_job job;
                std::vector<uint64_t> sizes;
                for (size_t i = 0; i < b.next_chunk.size(); i++) sizes.push_back(1 + random() % (20 * chunk_bytes));
                b.prepare(job, step, sizes);
                check_sealed(b, job, b.run_through(job));
            }
        }
    }
}

Test(agent_drain, writes_ranks_without_a_byte) {
    const temporary_directory in;
    bench b(in.path(), 3, 4);
    drain_job job;
    b.prepare(job, 1, {0, 3 * chunk_bytes + 1, 0});
    check_sealed(b, job, b.run_through(job));
}

Test(agent_drain, a_rank_that_is_gone_ends_it_without_a_file_and_without_its_chunks) {
    for (const uint64_t places : {16, 4}) {  // held, and as a ring
        const temporary_directory in;
        bench b(in.path(), 2, places);
        drain_job job;
        b.prepare(job, 1, {9 * chunk_bytes, 9 * chunk_bytes});
        const stager whole(b.pages, job.sources[0], b.data[0]);
        const stager torn(b.pages, job.sources[1], b.data[1], 3);
        std::thread canceller([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            job.cancelled = true;
        });
        const auto outcome = b.carry_out(job);
        canceller.join();
        cr_assert(!outcome.sealed);
        cr_assert(outcome.why.what == code::unavailable, "%s", outcome.why.context.c_str());
        cr_assert_eq(b.files_of(job), 0);
        cr_assert_eq(job.sources[0].control->released.load(), 9);
        cr_assert_eq(job.sources[1].control->released.load(), 3, "what it had staged");
        // The next generation's chunks begin behind the ones that were never staged.
        drain_job next;
        b.prepare(next, 2, {5 * chunk_bytes, 5 * chunk_bytes});
        next.sources[1].control->released = next.sources[1].first_chunk;
        check_sealed(b, next, b.run_through(next));
    }
}

// A rank gave a generation up, its chunks were never released, and the ring goes on: the count must not be taken from
// the rank's page.
Test(agent_drain, nonsense_in_a_ranks_page_does_no_harm) {
    const temporary_directory in;
    bench b(in.path(), 1, 4);
    for (const uint64_t nonsense : {uint64_t{0}, UINT64_MAX, uint64_t{1} << 40}) {
        drain_job job;
        b.next_chunk[0] += 1000;
        b.prepare(job, 1 + b.next_chunk[0], {4 * chunk_bytes});
        job.sources[0].place_count = 4;
        job.sources[0].control->released = job.sources[0].first_chunk;
        stager(b.pages, job.sources[0], b.data[0]).finish();
        job.sources[0].place_count = 3;  // not held: chunks are released one by one
        job.sources[0].control->released = nonsense;
        const auto outcome = b.carry_out(job);
        cr_assert(outcome.sealed);
        if (nonsense < UINT64_MAX / 2) cr_assert(job.sources[0].control->released.load() >= job.sources[0].end_chunk());
    }
}

// ---- a full file system

namespace {

int drain_on_full_tmpfs(bool becomes_free) {
    const temporary_directory in("/tmp");
    if (!store_test::mount_own("tmpfs", in.path(), "size=1m")) return 77;
    store_test::write_file(in.path() + "/ballast", std::string(900 << 10, 'b'));
    bench b(in.path(), 1, 64);
    drain_job job;
    b.prepare(job, 1, {40 * chunk_bytes});
    std::thread friendly([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(150));
        if (becomes_free) ::unlink((in.path() + "/ballast").c_str());
    });
    const auto outcome = b.run_through(job);
    friendly.join();
    b.check_released(job);
    if (becomes_free) check_sealed(b, job, outcome);
    const bool right = becomes_free
                           ? outcome.sealed
                           : !outcome.sealed && outcome.why.what == code::no_space && outcome.why.os_errno == ENOSPC &&
                                 outcome.why.context.find(in.path()) != std::string::npos && b.files_of(job) == 0;
    if (!right) ::fprintf(stderr, "%s\n", outcome.why.context.c_str());
    ::umount(in.path().c_str());
    return right ? 0 : 1;
}

}  // namespace

Test(agent_drain, tries_again_from_memory_when_there_is_room_again) {
    const int status = store_test::in_child([] { return drain_on_full_tmpfs(true); });
    if (status == 77) cr_skip_test("no file systems of one's own here");
    cr_assert_eq(status, 0);
}

Test(agent_drain, gives_up_where_there_stays_no_room_and_lets_go_of_the_chunks) {
    const int status = store_test::in_child([] { return drain_on_full_tmpfs(false); });
    if (status == 77) cr_skip_test("no file systems of one's own here");
    cr_assert_eq(status, 0);
}

// ---- file systems that take no O_DIRECT

// ramfs refuses it at open.
Test(agent_drain, writes_through_the_page_cache_where_open_refuses_o_direct) {
    const int status = store_test::in_child([] {
        const temporary_directory in("/tmp");
        if (!store_test::mount_own("ramfs", in.path(), nullptr)) return 77;
        const int probe = ::open((in.path() + "/probe").c_str(), O_CREAT | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
        if (probe >= 0) return 77;  // a ramfs that has learned it
        ::unlink((in.path() + "/probe").c_str());
        bench b(in.path(), 2, 4);
        drain_job job;
        b.prepare(job, 1, {9 * chunk_bytes + 5, 3 * chunk_bytes});
        check_sealed(b, job, b.run_through(job));
        ::umount(in.path().c_str());
        return 0;
    });
    if (status == 77) cr_skip_test("no file systems of one's own here");
    cr_assert_eq(status, 0);
}

// Also where the slab is a ring, and nothing could be written a second time.
Test(agent_drain, trial_finds_out_before_the_first_chunk_that_o_direct_is_refused) {
    for (const uint64_t places : {4, 16}) {
        const int status = store_test::in_child([places] {
            const temporary_directory in;
            bench b(in.path(), 1, places);
            // The kernel keeps silent about alignment, and the trial, the only plain write here, is refused.
            if (b.engine.fell_back() || !test::forbid(SYS_statx, ENOSYS) || !test::forbid(SYS_pwrite64, EINVAL))
                return 77;
            drain_job job;
            b.prepare(job, 1, {9 * chunk_bytes});
            check_sealed(b, job, b.run_through(job));
            return b.direct_refused ? 0 : 1;
        });
        if (status == 77) cr_skip_test("no io_uring or no seccomp here");
        cr_assert_eq(status, 0);
    }
}

// A slab at an odd address stands for a file system that asks for more than it says: each chunk is refused by the
// kernel, after open and trial went well.
Test(agent_drain, begins_anew_through_the_page_cache_where_a_write_refuses_o_direct) {
    for (const bool use_ring : {true, false}) {
        const temporary_directory in;
        bench b(in.path(), 1, 16, use_ring);
        drain_job job;
        b.prepare(job, 1, {9 * chunk_bytes});
        job.sources[0].slab += 1;
        job.sources[0].place_count = 10;
        check_sealed(b, job, b.run_through(job));
        cr_assert(b.direct_refused, "the next generation knows");
    }
}

Test(agent_drain, does_not_seal_over_a_pack_that_is_sealed) {
    const temporary_directory in;
    bench b(in.path(), 1, 8);
    drain_job job;
    b.prepare(job, 1, {chunk_bytes});
    check_sealed(b, job, b.run_through(job));
    drain_job again;
    b.prepare(again, 1, {2 * chunk_bytes});
    const auto before = b.data;
    const auto outcome = b.run_through(again);
    cr_assert(!outcome.sealed && outcome.why.what == code::busy, "%s", outcome.why.context.c_str());
    b.check_released(again);
}

// A worker that was killed between the seal and its note of it: the next one is given the same work.
Test(agent_drain, knows_its_own_pack_that_is_sealed_already) {
    const temporary_directory in;
    bench b(in.path(), 2, 8);
    drain_job job;
    b.prepare(job, 1, {3 * chunk_bytes, chunk_bytes / 2});
    const auto first = b.run_through(job);
    check_sealed(b, job, first);
    drain_job again;
    b.prepare(again, 1, {3 * chunk_bytes, chunk_bytes / 2});
    const auto second = b.run_through(again);
    check_sealed(b, again, second);
    cr_assert_eq(second.seal_checksum, first.seal_checksum);
}

// Nothing is mounted there, so the pack stays with its run.
Test(agent_drain, goes_around_a_mount_that_is_not_there) {
    const temporary_directory in;
    bench b(in.path(), 2, 4);
    b.run.spread_over({in.path()});
    drain_job job;
    b.prepare(job, 1, {1000, 50'000});
    check_sealed(b, job, b.run_through(job));
}

Test(agent_drain, knows_its_own_pack_that_is_sealed_on_a_mount) {
    const store_test::mounted m;
    bench b(m.at.path() + "/runs", 1, 4);
    b.run.spread_over(m.mounts);
    drain_job job;
    b.prepare(job, 1, {20'000});
    check_sealed(b, job, b.run_through(job));
    cr_assert(store_test::is_link(b.pack_path(job)));
    drain_job again;
    b.next_chunk[0] = 0;
    b.prepare(again, 1, {20'000});
    const auto outcome = b.run_through(again);
    cr_assert(outcome.sealed, "%s", outcome.why.context.c_str());
    // The mount is gone: the pack cannot be looked at, is not written twice, and stays what it is.
    m.take_away(0);
    drain_job third;
    b.next_chunk[0] = 0;
    b.prepare(third, 1, {20'000});
    cr_assert(!b.run_through(third).sealed);
    m.bring(0);
    check_pack(b.pack_path(job), b.data);
}

Test(agent_drain, is_no_faster_than_its_limit) {
    constexpr uint64_t size_bytes = 4 << 20;
    const temporary_directory in;
    bench b(in.path(), 1, size_bytes / chunk_bytes);
    b.pace = io::pace(8 << 20);
    drain_job job;
    b.prepare(job, 1, {size_bytes});
    const auto outcome = b.run_through(job);
    check_sealed(b, job, outcome);
    // Half a second, less the tenth that a pace lets its caller catch up.
    cr_assert_geq(outcome.duration_ns, 7 * ns_per_s / 20, "4 MiB at 8 MiB/s in %lu ns", outcome.duration_ns);
}

// A limit ends each round of the drain after a chunk: no rank may have all of them.
Test(agent_drain, a_limit_does_not_starve_a_rank) {
    constexpr uint64_t chunks = 64;
    const temporary_directory in;
    bench b(in.path(), 3, 4);
    b.pace = io::pace(4 << 20);
    drain_job job;
    b.prepare(job, 1, {chunks * chunk_bytes, chunks * chunk_bytes, chunks * chunk_bytes});
    std::atomic<bool> over{false};
    uint64_t behind_max = 0;
    std::thread watcher([&] {
        while (!over) {
            uint64_t least = UINT64_MAX;
            uint64_t most = 0;
            for (const auto& source : job.sources) {
                const uint64_t released = source.control->released.load();
                least = std::min(least, released);
                most = std::max(most, released);
            }
            behind_max = std::max(behind_max, most - least);
            std::this_thread::sleep_for(std::chrono::microseconds(500));
        }
    });
    const auto outcome = b.run_through(job);
    over = true;
    watcher.join();
    check_sealed(b, job, outcome);
    cr_assert_leq(behind_max, chunks / 2, "a rank was %lu chunks behind", behind_max);
}
