// RFC 3164 lines into /dev/log, by hand: syslog(3) blocks where the journal does not read.
#include "prolog/log.h"

#include "base/handle.h"
#include "base/result.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>

namespace varde::node {

namespace {

constexpr size_t line_bytes_max = 2000;

// The one state of these small programs that everything shares: who is speaking.
std::string program_name = "varde";
std::string job_text;

}  // namespace

void open_log(const char* program, const std::string& job) {
    program_name = program;
    job_text = job.empty() ? "" : "job " + job + ": ";
}

void log_line(int priority, std::string_view line) noexcept {
    std::array<char, line_bytes_max> text{};
    const int length = std::snprintf(text.data(), text.size(), "<%d>%s[%d]: %s%.*s", LOG_DAEMON | priority,
                                     program_name.c_str(), static_cast<int>(::getpid()), job_text.c_str(),
                                     static_cast<int>(std::min(line.size(), text.size())), line.data());
    // One call is one line, whoever's words it quotes, and no terminal is told anything by them.
    for (char* c = text.data(); *c != '\0'; c++)
        if (static_cast<unsigned char>(*c) < ' ' || *c == 0x7f) *c = '?';
    const std::string_view datagram(text.data(), std::min(static_cast<size_t>(length), text.size() - 1));
    const std::string_view shown = datagram.substr(datagram.find('>') + 1);
    std::fprintf(stderr, "%.*s\n", static_cast<int>(shown.size()), shown.data());
    sockaddr_un address{AF_UNIX, "/dev/log"};
    const unique_fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket || ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return;
    discard(static_cast<int>(::send(socket.get(), datagram.data(), datagram.size(), MSG_NOSIGNAL)),
            "stderr has it too");
}

}  // namespace varde::node
