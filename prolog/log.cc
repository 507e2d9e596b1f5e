// RFC 3164 lines into /dev/log, by hand: syslog(3) blocks where the journal does not read.
#include "prolog/log.h"

#include "base/handle.h"
#include "base/result.h"

#include <cstdio>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>

namespace varde::node {

namespace {

// The one state of these small programs that everything shares: who is speaking.
std::string program_name = "varde";
std::string job_text;

}  // namespace

void open_log(const char* program, const std::string& job) {
    program_name = program;
    job_text = job.empty() ? "" : "job " + job + ": ";
}

void log_line(int priority, const std::string& line) {
    const std::string text = program_name + "[" + std::to_string(::getpid()) + "]: " + job_text + line;
    std::fprintf(stderr, "%s\n", text.c_str());
    sockaddr_un address{AF_UNIX, "/dev/log"};
    const unique_fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket || ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return;
    const std::string datagram = "<" + std::to_string(LOG_DAEMON | priority) + ">" + text;
    discard(static_cast<int>(::send(socket.get(), datagram.data(), datagram.size(), MSG_NOSIGNAL)),
            "stderr has it too");
}

}  // namespace varde::node
