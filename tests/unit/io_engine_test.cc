// The engine on real files: contents, short transfers, errors and deadlines.
#include "io_support.h"
#include "io/transfer.h"
#include "base/clock.h"

#include <atomic>
#include <csignal>
#include <pthread.h>
#include <thread>

using namespace io_test;

Test(engine, registered_direct_transfers_keep_every_byte) {
    if (no_ring_here()) cr_skip_test("no io_uring here");
    temporary_directory at;
    const mapping source = make_memory(memory_bytes, 1), target = make_memory(memory_bytes, 2);
    engine with = open_engine(8, {{source.data(), source.size_bytes()}, {target.data(), target.size_bytes()}});
    if (!with.fell_back())
        cr_assert(with.description() == "io_uring, 2 registered buffers", "%s", with.description().c_str());
    cr_assert_eq(round_trip(with, at.path + "/file", source, target, O_DIRECT), 0);
}

Test(engine, all_ways_give_the_same_file) {
    temporary_directory at;
    const mapping source = make_memory(memory_bytes, 3), target = make_memory(memory_bytes, 4);
    for (const bool use_ring : {true, false}) {
        for (const int flags : {0, O_DIRECT}) {
            engine with = open_engine(5, {}, use_ring);
            cr_assert_eq(round_trip(with, at.path + "/file", source, target, flags), 0, "ring %d, flags %o", use_ring,
                         flags);
        }
    }
}

Test(engine, transfer_across_two_registered_parts_is_right) {
    if (no_ring_here()) cr_skip_test("no io_uring here");
    temporary_directory at;
    const mapping source = make_memory(memory_bytes, 5), target = make_memory(memory_bytes, 6);
    // Registered up to the middle of a chunk only: the rest goes unregistered.
    engine with = open_engine(4, {{source.data(), 4096 * 100}, {source.data() + 4096 * 100, 4096 * 7}});
    cr_assert_eq(round_trip(with, at.path + "/file", source, target, O_DIRECT), 0);
}

Test(engine, accepts_no_more_than_its_depth) {
    temporary_directory at;
    const unique_fd fd = open_file(at.path + "/file", O_CREAT | O_RDWR);
    const mapping memory = make_memory(4096, 7);
    for (const bool use_ring : {true, false}) {
        engine with = open_engine(2, {}, use_ring);
        need(with.submit({operation::write, fd.get(), memory.data(), 4096, 0, 1}));
        need(with.submit({operation::write, fd.get(), memory.data(), 4096, 4096, 2}));
        cr_assert(with.full() && with.in_flight() == 2);
        const result<void> third = with.submit({operation::write, fd.get(), memory.data(), 4096, 8192, 3});
        cr_assert(!third && third.error().what == code::busy);
        cr_assert_eq(need(with.wait(2, deadline::in_ms(10'000))).size(), 2);
        cr_assert_eq(with.in_flight(), 0);
    }
}

Test(engine, nonsense_is_refused) {
    std::byte one{};
    for (const uint32_t depth : {0u, depth_max + 1})
        cr_assert(!engine::open({.depth = depth, .buffers = {}, .use_ring = true}).has_value());
    const mapping memory = make_memory(16384, 8);
    cr_assert(!engine::open({.depth = 1, .buffers = {{memory.data() + 1, 4096}}, .use_ring = true}).has_value());
    cr_assert(
        !engine::open({.depth = 1, .buffers = {{memory.data(), 8192}, {memory.data() + 4096, 4096}}, .use_ring = true})
             .has_value());
    engine with = open_engine(1);
    cr_assert(!with.submit({operation::write, 0, nullptr, 1, 0, 0}).has_value());
    cr_assert(!with.submit({operation::write, 0, &one, 0, 0, 0}).has_value());
    cr_assert(!with.submit({operation::write, 0, &one, request_bytes_max + 1, 0, 0}).has_value());
    cr_assert(!with.submit({operation::write, 0, &one, 1, UINT64_MAX - 5, 0}).has_value());
    cr_assert_eq(with.in_flight(), 0);
}

Test(engine, errors_come_with_their_request) {
    temporary_directory at;
    const unique_fd closed_for_writing = open_file(at.path + "/file", O_CREAT | O_RDONLY);
    const mapping memory = make_memory(4096, 9);
    for (const bool use_ring : {true, false}) {
        engine with = open_engine(4, {}, use_ring);
        need(with.submit({operation::write, closed_for_writing.get(), memory.data(), 4096, 0, 7}));
        need(with.submit({operation::write, 999, memory.data(), 4096, 0, 8}));
        std::map<uint64_t, int> errors;
        while (errors.size() < 2) {
            for (const completion& done : need(with.wait(1, deadline::in_ms(10'000))))
                errors[done.cookie] = done.os_errno;
        }
        cr_assert(errors[7] == EBADF && errors[8] == EBADF);
    }
}

Test(engine, unaligned_direct_write_answers_einval) {
    temporary_directory at;
    const unique_fd fd = open_file(at.path + "/file", O_CREAT | O_RDWR | O_DIRECT);
    const mapping memory = make_memory(8192, 10);
    for (const bool use_ring : {true, false}) {
        engine with = open_engine(1, {}, use_ring);
        need(with.submit({operation::write, fd.get(), memory.data() + 1, 4096, 0, 7}));
        const auto done = need(with.wait(1, deadline::in_ms(10'000)));
        cr_assert(done.size() == 1 && done[0].os_errno == EINVAL && done[0].bytes == 0);
    }
}

Test(engine, read_past_the_end_is_short_and_no_error) {
    temporary_directory at;
    const mapping memory = make_memory(65536, 11);
    { cr_assert_eq(::write(open_file(at.path + "/file", O_CREAT | O_WRONLY).get(), memory.data(), 10'000), 10'000); }
    for (const bool use_ring : {true, false}) {
        for (const int flags : {0, O_DIRECT}) {
            const unique_fd fd = open_file(at.path + "/file", O_RDONLY | flags);
            engine with = open_engine(1, {}, use_ring);
            need(with.submit({operation::read, fd.get(), memory.data(), 65536, 0, 1}));
            const auto done = need(with.wait(1, deadline::in_ms(10'000)));
            cr_assert(done.size() == 1 && done[0].os_errno == 0 && done[0].bytes == 10'000, "errno %d, %lu bytes",
                      done[0].os_errno, done[0].bytes);
        }
    }
}

Test(engine, short_transfers_are_carried_on) {
    if (no_ring_here()) cr_skip_test("no io_uring here");
    // A pipe hands over what it has: 64 KiB at most.
    int ends[2];
    cr_assert_eq(::pipe2(ends, O_CLOEXEC), 0);
    const unique_fd from(ends[0]), to(ends[1]);
    const mapping source = make_memory(1 << 20, 12), target = make_memory(1 << 20, 13);
    std::thread writer([&]() {
        for (size_t at = 0; at < source.size_bytes();) {
            const ssize_t wrote =
                ::write(to.get(), source.data() + at, std::min<size_t>(10'000, source.size_bytes() - at));
            if (wrote > 0) at += static_cast<size_t>(wrote);
        }
    });
    engine with = open_engine(1);
    need(with.submit({operation::read, from.get(), target.data(), target.size_bytes(), 0, 1}));
    const auto done = need(with.wait(1, deadline::in_ms(20'000)));
    writer.join();
    cr_assert(done.size() == 1 && done[0].os_errno == 0 && done[0].bytes == target.size_bytes());
    cr_assert_eq(std::memcmp(source.data(), target.data(), target.size_bytes()), 0);
}

Test(engine, short_writes_are_carried_on) {
    if (no_ring_here()) cr_skip_test("no io_uring here");
    // A pipe takes what it has room for: 64 KiB at most.
    int ends[2];
    cr_assert_eq(::pipe2(ends, O_CLOEXEC), 0);
    const unique_fd from(ends[0]), to(ends[1]);
    const mapping source = make_memory(1 << 20, 30), target = make_memory(1 << 20, 31);
    std::thread reader([&]() {
        for (size_t at = 0; at < target.size_bytes();) {
            const ssize_t got =
                ::read(from.get(), target.data() + at, std::min<size_t>(10'000, target.size_bytes() - at));
            if (got > 0) at += static_cast<size_t>(got);
        }
    });
    engine with = open_engine(1);
    need(with.submit({operation::write, to.get(), source.data(), source.size_bytes(), 0, 1}));
    const auto done = need(with.wait(1, deadline::in_ms(20'000)));
    cr_assert(done.size() == 1 && done[0].os_errno == 0 && done[0].bytes == source.size_bytes());
    reader.join();
    cr_assert_eq(std::memcmp(source.data(), target.data(), source.size_bytes()), 0);
}

Test(engine, signals_do_not_end_a_wait) {
    if (no_ring_here()) cr_skip_test("no io_uring here");
    static std::atomic<int> caught{0};
    struct sigaction without_restart {};
    without_restart.sa_handler = [](int) { ++caught; };
    cr_assert_eq(::sigaction(SIGUSR1, &without_restart, nullptr), 0);
    int ends[2];
    cr_assert_eq(::pipe2(ends, O_CLOEXEC), 0);
    const unique_fd from(ends[0]), to(ends[1]);
    const mapping memory = make_memory(4096, 33);
    engine with = open_engine(2);
    need(with.submit({operation::read, from.get(), memory.data(), 4, 0, 1}));
    std::thread disturber([&, waiting = ::pthread_self()]() {
        while (caught < 5) {
            ::pthread_kill(waiting, SIGUSR1);
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        cr_assert_eq(::write(to.get(), "abcd", 4), 4);
    });
    const auto done = need(with.wait(1, deadline::in_ms(20'000)));
    disturber.join();
    cr_assert(done.size() == 1 && done[0].os_errno == 0 && done[0].bytes == 4);
}

Test(engine, held_files_keep_every_byte) {
    temporary_directory at;
    const mapping source = make_memory(memory_bytes, 34), target = make_memory(memory_bytes, 35);
    for (const bool use_ring : {true, false}) {
        engine with = open_engine(8, {{source.data(), source.size_bytes()}}, use_ring);
        for (const int flags : {0, O_DIRECT})
            cr_assert_eq(round_trip_held(with, at.path + "/file", source, target, flags), 0);
    }
}

// The kernel keeps a file that it holds: only one that is dropped may give its number to the next.
Test(engine, dropped_file_is_not_taken_for_the_next_of_its_number) {
    temporary_directory at;
    const mapping memory = make_memory(8192, 36);
    engine with = open_engine(2);
    int number = -1;
    for (const char* name : {"/first", "/second"}) {
        const unique_fd fd = open_file(at.path + name, O_CREAT | O_RDWR);
        if (number >= 0) cr_assert_eq(fd.get(), number, "the test wants the same number again");
        number = fd.get();
        const held_file held(with, fd.get());
        need(with.submit({operation::write, fd.get(), memory.data(), name[1] == 'f' ? 4096U : 8192U, 0, 1}));
        cr_assert_eq(need(with.wait(1, deadline::in_ms(20'000))).size(), 1);
    }
    cr_assert_eq(std::filesystem::file_size(at.path + "/first"), 4096);
    cr_assert_eq(std::filesystem::file_size(at.path + "/second"), 8192);
}

Test(engine, more_files_than_it_can_hold_go_by_their_descriptors) {
    temporary_directory at;
    const mapping memory = make_memory(4096, 37);
    engine with = open_engine(held_files_max + 4);
    std::vector<unique_fd> files;
    std::vector<held_file> held;
    for (uint32_t i = 0; i < held_files_max + 4; ++i) {
        files.push_back(open_file(at.path + "/" + std::to_string(i), O_CREAT | O_RDWR));
        held.emplace_back(with, files.back().get());
        need(with.submit({operation::write, files.back().get(), memory.data(), 100 + i, 0, i}));
    }
    while (with.in_flight() > 0) {
        for (const completion& done : need(with.wait(1, deadline::in_ms(20'000)))) cr_assert_eq(done.os_errno, 0);
    }
    for (uint32_t i = 0; i < held_files_max + 4; ++i)
        cr_assert_eq(std::filesystem::file_size(at.path + "/" + std::to_string(i)), 100 + i);
}

Test(engine, wait_ends_at_its_deadline) {
    if (no_ring_here()) cr_skip_test("no io_uring here");
    int ends[2];
    cr_assert_eq(::pipe2(ends, O_CLOEXEC), 0);
    const unique_fd from(ends[0]), to(ends[1]);
    const mapping memory = make_memory(4096, 14);
    engine with = open_engine(2);
    need(with.submit({operation::read, from.get(), memory.data(), 4, 0, 1}));
    const uint64_t start = mono_ns();
    cr_assert_eq(need(with.wait(1, deadline::in_ms(100))).size(), 0);
    const uint64_t took_ms = (mono_ns() - start) / ns_per_ms;
    cr_assert(took_ms >= 99 && took_ms < 2000, "%lu ms", took_ms);
    cr_assert_eq(with.in_flight(), 1);
    cr_assert_eq(::write(to.get(), "abcd", 4), 4);
    cr_assert_eq(need(with.wait(1, deadline::in_ms(10'000))).size(), 1);
    cr_assert_eq(need(with.wait(1, deadline::in_ms(10'000))).size(), 0, "nothing in flight: no wait");
}

Test(engine, stop_takes_back_what_never_answers) {
    if (no_ring_here()) cr_skip_test("no io_uring here");
    int ends[2];
    cr_assert_eq(::pipe2(ends, O_CLOEXEC), 0);
    const unique_fd from(ends[0]), to(ends[1]);
    const mapping memory = make_memory(4096, 15);
    engine with = open_engine(4);
    for (uint64_t i = 0; i < 4; ++i) need(with.submit({operation::read, from.get(), memory.data() + i * 4, 4, 0, i}));
    const result<void> stopped = with.stop(deadline::in_ms(300));
    if (stopped) {
        cr_assert_eq(with.in_flight(), 0);
        need(with.submit({operation::read, from.get(), memory.data(), 4, 0, 9}));  // and it works on
        cr_assert_eq(::write(to.get(), "abcd", 4), 4);
        const auto done = need(with.wait(1, deadline::in_ms(10'000)));
        cr_assert(done.size() == 1 && done[0].cookie == 9 && done[0].bytes == 4);
    } else {
        cr_assert(stopped.error().what == code::timeout, "%s",
                  stopped.error().context.c_str());  // kernels before 5.19 cannot cancel all
    }
}

Test(engine, abandoned_one_ends_within_its_bound) {
    if (no_ring_here()) cr_skip_test("no io_uring here");
    int ends[2];
    cr_assert_eq(::pipe2(ends, O_CLOEXEC), 0);
    const unique_fd from(ends[0]), to(ends[1]);
    const mapping memory = make_memory(4096, 16);
    const uint64_t start = mono_ns();
    {
        engine with = open_engine(4);
        need(with.submit({operation::read, from.get(), memory.data(), 4, 0, 1}));
        with = open_engine(1);  // the old one ends here
    }
    cr_assert_lt((mono_ns() - start) / ns_per_ms, 2 * destroy_wait_ms + 1000);
}

Test(transfer, ends_where_it_should) {
    std::byte data[64];
    const auto start = [&](operation what) { return pending{{what, 0, data, 64, 0, 0}, 0, 0}; };
    int os_errno = -1;
    pending one = start(operation::write);
    cr_assert(advance(one, 30, &os_errno) == progress::again && one.bytes_done == 30);
    cr_assert(advance(one, -EINTR, &os_errno) == progress::again);
    cr_assert(advance(one, 34, &os_errno) == progress::ended && os_errno == 0 && one.bytes_done == 64);
    one = start(operation::write);
    cr_assert(advance(one, 0, &os_errno) == progress::ended && os_errno == EIO,
              "a write that writes nothing would go on for ever");
    one = start(operation::read);
    cr_assert(advance(one, 0, &os_errno) == progress::ended && os_errno == 0);
    one = start(operation::read);
    cr_assert(advance(one, 30, &os_errno) == progress::again);
    cr_assert(advance(one, -EINVAL, &os_errno) == progress::ended && os_errno == 0 && one.bytes_done == 30);
    one = start(operation::write);
    cr_assert(advance(one, 30, &os_errno) == progress::again);
    cr_assert(advance(one, -EINVAL, &os_errno) == progress::ended && os_errno == EINVAL);
    one = start(operation::write);
    unsigned tries = 0;
    while (advance(one, -EAGAIN, &os_errno) == progress::again) cr_assert_lt(++tries, 1000);
    cr_assert_eq(os_errno, EAGAIN);
}
