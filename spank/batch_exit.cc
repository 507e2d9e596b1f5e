// The batch script has failed: ask the job's agent, which knows whether the training advanced, and wait while it acts.
//
// Runs as root in the batch step's slurmstepd.  The socket lies in a directory that only root can write, so its name
// is safe; who listens there is the user's process.  Nothing in its answer is believed or even looked at: that it
// came ends the wait.
#include "spank/hooks.h"

#include "arena/batch_exit.h"
#include "base/clock.h"
#include "base/handle.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

namespace {

constexpr time_t connect_s_max = 1;
// A generation that is still on its way, and some calls of scontrol to a controller that may be busy; the agent bounds
// them.
constexpr uint64_t answer_ms_max = 20'000;

// A Unix socket connects at once unless its backlog is full; then SO_SNDTIMEO bounds the wait.
varde::unique_fd connect_agent(const char* run_directory, uint32_t job_id) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const int length =
        std::snprintf(address.sun_path, sizeof address.sun_path, "%s/%u/agent.sock", run_directory, job_id);
    if (length < 0 || static_cast<size_t>(length) >= sizeof address.sun_path) return {};
    varde::unique_fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval bound{connect_s_max, 0};
    if (!socket || ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof bound) != 0) return {};
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return {};
    return socket;
}

void wait_answer(int socket) {
    const auto until = varde::deadline::in_ms(answer_ms_max);
    pollfd waited{socket, POLLIN, 0};
    while (::poll(&waited, 1, until.left_ms()) < 0 && errno == EINTR) {}
}

}  // namespace

extern "C" void varde_batch_ended(const char* run_directory, uint32_t job_id, int wait_status) {
    const varde::unique_fd socket = connect_agent(run_directory, job_id);
    if (!socket) return;
    varde_batch_exit message{};
    message.head = {VARDE_FRAME_MAGIC, VARDE_FRAME_VERSION, VARDE_FRAME_BATCH_EXIT,
                    sizeof message - sizeof message.head};
    message.job_id = job_id;
    message.wait_status = wait_status;
    static_assert(sizeof message == 64);
    // 64 bytes into a fresh socket fit as a whole; an agent that is gone must not raise SIGPIPE in the stepd.
    if (::send(socket.get(), &message, sizeof message, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof message)) return;
    wait_answer(socket.get());
}
