// Each way in which a host may refuse what the engine wants: the fallback has a name, and the bytes are the same.
#include "forbid.h"
#include "io_support.h"

#include <csignal>
#include <liburing.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <ucontext.h>

using namespace io_test;
using test::forbid;
using test::forbid_with;
using test::trap;

Test(refusal, refused_ring_is_named_and_replaced) {
    temporary_directory at;
    const mapping source = make_memory(memory_bytes, 17), target = make_memory(memory_bytes, 18);
    for (const int os_errno : {EPERM, ENOSYS}) {
        const int status = in_child([&]() {
            if (!forbid(SYS_io_uring_setup, os_errno)) return 77;
            engine with = open_engine(8, {{source.data(), source.size_bytes()}});
            if (!with.fell_back()) return 10;
            if (with.description().find("pwrite (io_uring refused: io_uring_setup: " +
                                        std::string(std::strerror(os_errno))) != 0)
                return 11;
            return round_trip(with, at.path + "/file", source, target, O_DIRECT);
        });
        if (status == 77) cr_skip_test("no seccomp here");
        cr_assert_eq(status, 0, "errno %d: %d", os_errno, status);
    }
}

// ETIMEDOUT and ENOMEM have codes of their own elsewhere; a broken ring is `io` with any of them.
Test(refusal, ring_that_breaks_is_stopped_only_when_nothing_is_in_flight) {
    if (no_ring_here()) cr_skip_test("no io_uring here");
    const mapping memory = make_memory(4096, 22);
    for (const int os_errno : {EIO, ETIMEDOUT, ENOMEM}) {
        const int status = in_child([&]() {
            int ends[2];
            if (::pipe2(ends, O_CLOEXEC) != 0) return 10;
            engine with = open_engine(4);
            need(with.submit({operation::read, ends[0], memory.data(), 4, 0, 1}));  // the kernel has this one
            if (!forbid(SYS_io_uring_enter, os_errno)) return 77;
            need(with.submit({operation::read, ends[0], memory.data() + 4, 4, 0, 2}));  // and never this one
            if (with.submit({operation::read, ends[0], memory.data() + 8, 4, 0, 3})) return 11;
            const auto waited = with.wait(1, deadline::in_ms(10'000));
            if (waited || waited.error().what != code::io || waited.error().os_errno != os_errno) return 12;

            const auto early = with.stop(deadline::in_ms(100));
            if (early || early.error().what != code::timeout || with.in_flight() != 2) return 13;
            if (::write(ends[1], "abcd", 4) != 4) return 14;
            const uint64_t start = mono_ns();
            const auto late = with.stop(deadline::in_ms(10'000));
            if (late || late.error().what != code::io || with.in_flight() != 0) return 15;
            if (std::memcmp(memory.data(), "abcd", 4) != 0 || mono_ns() - start > 5 * ns_per_s) return 16;
            const auto again = with.stop(deadline::in_ms(10'000));
            return !again && again.error().what == code::io && !with.wait(0, deadline::in_ms(0)) ? 0 : 17;
        });
        if (status == 77) cr_skip_test("no seccomp here");
        cr_assert_eq(status, 0, "errno %d: %d", os_errno, status);
    }
}

Test(refusal, ring_that_breaks_under_a_stop_says_so) {
    if (no_ring_here()) cr_skip_test("no io_uring here");
    const mapping memory = make_memory(4096, 23);
    const int status = in_child([&]() {
        int ends[2];
        if (::pipe2(ends, O_CLOEXEC) != 0) return 10;
        engine with = open_engine(4);
        need(with.submit({operation::read, ends[0], memory.data(), 4, 0, 1}));
        if (!forbid(SYS_io_uring_enter, EIO)) return 77;
        // Its cancellation stays in the queue and is not taken for the request.
        const auto early = with.stop(deadline::in_ms(100));
        if (early || early.error().what != code::timeout || with.in_flight() != 1) return 11;
        if (::write(ends[1], "abcd", 4) != 4) return 12;
        const auto late = with.stop(deadline::in_ms(10'000));
        return !late && late.error().what == code::io && with.in_flight() == 0 ? 0 : 13;
    });
    if (status == 77) cr_skip_test("no seccomp here");
    cr_assert_eq(status, 0, "%d", status);
}

Test(refusal, small_memlock_is_named_with_need_and_limit) {
    if (no_ring_here()) cr_skip_test("no io_uring here");
    temporary_directory at;
    cr_assert_eq(::chmod(at.path.c_str(), 0777), 0);
    const mapping source = make_memory(memory_bytes, 19), target = make_memory(memory_bytes, 20);
    const int status = in_child([&]() {
        const rlimit limit{64 << 10, 64 << 10};
        if (::setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return 77;
        if (::geteuid() == 0 && ::setuid(65534) != 0) return 77;  // CAP_IPC_LOCK knows no limit
        engine with = open_engine(8, {{source.data(), source.size_bytes()}});
        if (!with.fell_back()) return 10;
        if (with.description() !=
            "io_uring, buffers not registered: needs 5 MiB locked, limit is 64 KiB (raise memlock)") {
            ::dprintf(2, "%s\n", with.description().c_str());
            return 11;
        }
        return round_trip(with, at.path + "/file", source, target, O_DIRECT);
    });
    if (status == 77) cr_skip_test("limits cannot be set here");
    cr_assert_eq(status, 0, "%d", status);
}

Test(refusal, refused_file_table_is_named_and_files_go_by_their_descriptor) {
    if (no_ring_here()) cr_skip_test("no io_uring here");
    temporary_directory at;
    const mapping source = make_memory(memory_bytes, 24), target = make_memory(memory_bytes, 25);
    const int status = in_child([&]() {
        if (!forbid_with(SYS_io_uring_register, 1, IORING_REGISTER_FILES, EPERM)) return 77;
        engine with = open_engine(8, {{source.data(), source.size_bytes()}});
        if (!with.fell_back()) return 10;
        if (with.description() !=
            "io_uring, 1 registered buffer, files not registered: io_uring_register: Operation not permitted") {
            ::dprintf(2, "%s\n", with.description().c_str());
            return 11;
        }
        return round_trip_held(with, at.path + "/file", source, target, O_DIRECT);
    });
    if (status == 77) cr_skip_test("no seccomp here");
    cr_assert_eq(status, 0, "%d", status);
}

// What a container's profile does that knows io_uring_setup and io_uring_enter only.
Test(refusal, refused_registration_is_named_for_buffers_and_files) {
    if (no_ring_here()) cr_skip_test("no io_uring here");
    temporary_directory at;
    const mapping source = make_memory(memory_bytes, 26), target = make_memory(memory_bytes, 27);
    const int status = in_child([&]() {
        if (!forbid(SYS_io_uring_register, EACCES)) return 77;
        engine with = open_engine(8, {{source.data(), source.size_bytes()}});
        const std::string& said = with.description();
        if (!with.fell_back() || said.find("buffers not registered: io_uring_register: Permission denied") == said.npos)
            return 10;
        if (said.find("files not registered: io_uring_register: Permission denied") == said.npos) return 11;
        return round_trip_held(with, at.path + "/file", source, target, O_DIRECT);
    });
    if (status == 77) cr_skip_test("no seccomp here");
    cr_assert_eq(status, 0, "%d", status);
}

#if defined(__x86_64__)

namespace {

// Answers pwrite64: three times EINTR or EAGAIN, then for 1,000 bytes more than the time before.
void answer_pwrite(int, siginfo_t*, void* context) {
    static int calls = 0;
    greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    const int call = calls++;
    if (call % 4 != 3) {
        registers[REG_RAX] = call % 2 == 0 ? -EINTR : -EAGAIN;
        return;
    }
    const iovec part{reinterpret_cast<void*>(registers[REG_RSI]),
                     std::min<size_t>(static_cast<size_t>(registers[REG_RDX]), 1000 * static_cast<size_t>(call))};
    const ssize_t wrote = ::pwritev(static_cast<int>(registers[REG_RDI]), &part, 1, registers[REG_R10]);
    registers[REG_RAX] = wrote >= 0 ? wrote : -errno;
}

}  // namespace

Test(refusal, plain_writes_go_on_after_eintr_eagain_and_short_ones) {
    temporary_directory at;
    const mapping source = make_memory(memory_bytes, 28), target = make_memory(memory_bytes, 29);
    const int status = in_child([&]() {
        struct sigaction answer {};
        answer.sa_sigaction = answer_pwrite;
        answer.sa_flags = SA_SIGINFO;
        if (::sigaction(SIGSYS, &answer, nullptr) != 0 || !trap(SYS_pwrite64)) return 77;
        engine with = open_engine(4, {}, false);
        return round_trip(with, at.path + "/file", source, target, 0);
    });
    if (status == 77) cr_skip_test("no seccomp here");
    cr_assert_eq(status, 0, "%d", status);
}

#endif

// A kernel that never does better must not keep us for ever.
Test(refusal, endless_eintr_and_eagain_end_with_their_request) {
    temporary_directory at;
    const mapping memory = make_memory(4096, 30);
    for (const int os_errno : {EINTR, EAGAIN}) {
        const int status = in_child([&]() {
            const unique_fd fd = open_file(at.path + "/file", O_CREAT | O_RDWR);
            if (!forbid(SYS_pwrite64, os_errno)) return 77;
            engine with = open_engine(1, {}, false);
            need(with.submit({operation::write, fd.get(), memory.data(), 4096, 0, 1}));
            const auto done = need(with.wait(1, deadline::in_ms(10'000)));
            return done.size() == 1 && done[0].os_errno == os_errno && done[0].bytes == 0 ? 0 : 1;
        });
        if (status == 77) cr_skip_test("no seccomp here");
        cr_assert_eq(status, 0, "errno %d: %d", os_errno, status);
    }
}

Test(refusal, full_file_system_answers_enospc) {
    temporary_directory at;
    const mapping source = make_memory(4 << 20, 21);
    for (const bool use_ring : {true, false}) {
        const int status = in_child([&]() {
            if (::unshare(::geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) != 0) return 77;
            if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 77;
            if (::mount("none", at.path.c_str(), "tmpfs", 0, "size=1m") != 0) return 77;
            engine with = open_engine(4, {}, use_ring);
            const unique_fd fd = open_file(at.path + "/file", O_CREAT | O_RDWR);
            unsigned full = 0;
            for (uint64_t i = 0; i < 4; ++i)
                need(with.submit({operation::write, fd.get(), source.data() + (i << 20), 1 << 20, i << 20, i}));
            while (with.in_flight() > 0) {
                for (const completion& done : need(with.wait(1, deadline::in_ms(10'000))))
                    full += done.os_errno == ENOSPC;
            }
            return full == 3 ? 0 : 1;
        });
        if (status == 77) cr_skip_test("no mount namespace of our own here");
        cr_assert_eq(status, 0, "%d", status);
    }
}
