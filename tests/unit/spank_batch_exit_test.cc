// The question at the end of a batch script: the message byte for byte, and that no agent can hold the stepd for long.
#include "spank/hooks.h"

#include "arena/batch_exit.h"
#include "base/clock.h"

#include <criterion/criterion.h>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

static std::string folder;
static int listener = -1;

static void setup() {
    char path[] = "/tmp/varde-spank-XXXXXX";
    cr_assert_not_null(::mkdtemp(path));
    folder = path;
    cr_assert_eq(::mkdir((folder + "/7").c_str(), 0755), 0);
}

static void listen_agent(int backlog) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof address.sun_path, "%s/7/agent.sock", folder.c_str());
    listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    cr_assert_eq(::listen(listener, backlog), 0);
}

static void teardown() {
    if (listener >= 0) ::close(listener);
    ::unlink((folder + "/7/agent.sock").c_str());
    ::rmdir((folder + "/7").c_str());
    ::rmdir(folder.c_str());
}
TestSuite(batch_exit, .init = setup, .fini = teardown, .timeout = 40);

static uint64_t elapsed_ms(const char* directory) {
    const uint64_t start = varde::mono_ns();
    varde_batch_ended(directory, 7, 256);
    return (varde::mono_ns() - start) / varde::ns_per_ms;
}

Test(batch_exit, without_an_agent_it_returns_at_once) {
    cr_assert_lt(elapsed_ms(folder.c_str()), 100);
    cr_assert_lt(elapsed_ms("/nonexistent"), 100);
    cr_assert_lt(elapsed_ms(std::string(200, 'x').c_str()), 100, "a path too long for a socket");
}

Test(batch_exit, a_socket_that_nobody_listens_on_is_no_agent) {
    listen_agent(1);
    ::close(listener);
    listener = -1;
    cr_assert_lt(elapsed_ms(folder.c_str()), 100);
}

Test(batch_exit, sends_the_message_and_waits_for_the_answer) {
    listen_agent(4);
    varde_batch_exit got{};
    std::thread agent([&] {
        const int peer = ::accept(listener, nullptr, nullptr);
        if (::recv(peer, &got, sizeof got, MSG_WAITALL) == static_cast<ssize_t>(sizeof got)) {
            ::usleep(300'000);
            const varde_batch_answer answer{};
            (void)!::send(peer, &answer, sizeof answer, MSG_NOSIGNAL);
        }
        ::close(peer);
    });
    const uint64_t took = elapsed_ms(folder.c_str());
    agent.join();
    cr_assert_eq(got.head.magic, VARDE_FRAME_MAGIC);
    cr_assert_eq(got.head.version, VARDE_FRAME_VERSION);
    cr_assert_eq(got.head.type, VARDE_FRAME_BATCH_EXIT);
    cr_assert_eq(got.head.payload_bytes, 48);
    cr_assert_eq(got.job_id, 7);
    cr_assert_eq(got.wait_status, 256);
    cr_assert(took >= 290 && took < 3000, "%lu ms", took);
}

Test(batch_exit, an_agent_that_dies_ends_the_wait) {
    listen_agent(4);
    std::thread agent([&] { ::close(::accept(listener, nullptr, nullptr)); });
    cr_assert_lt(elapsed_ms(folder.c_str()), 1000);
    agent.join();
}

Test(batch_exit, an_agent_that_never_answers_is_left_after_twenty_seconds) {
    listen_agent(4);
    const uint64_t took = elapsed_ms(folder.c_str());
    cr_assert(took >= 19'900 && took < 25'000, "%lu ms", took);
}

Test(batch_exit, a_full_backlog_is_left_after_a_second) {
    listen_agent(0);
    int fillers[8];
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof address.sun_path, "%s/7/agent.sock", folder.c_str());
    for (int& filler : fillers) {
        filler = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)!::connect(filler, reinterpret_cast<sockaddr*>(&address), sizeof address);
    }
    const uint64_t took = elapsed_ms(folder.c_str());
    for (const int filler : fillers) ::close(filler);
    cr_assert(took >= 900 && took < 2500, "%lu ms", took);
}
