// The real agent as a process, and ranks that speak the protocol from here in the library's place.
//
// varde-agent is looked for beside the test's program (../../bin), or at VARDE_AGENT; without it the tests are skipped.
#pragma once

#include "agent_support.h"
#include "arena/protocol.h"
#include "forbid.h"

#include <csignal>
#include <dirent.h>
#include <fstream>
#include <poll.h>
#include <sstream>
#include <sys/socket.h>
#include <sys/un.h>

namespace agent_test {

using arena::message;

inline std::string agent_program() {
    if (const char* given = std::getenv("VARDE_AGENT")) return given;
    return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../../bin/varde-agent").string();
}

// Empty where the process has ended meanwhile; a stream that throws is of no use here.
inline std::string text_of_process(const std::filesystem::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

// Pids whose parent is `parent`, or whose command line holds `word` where parent is 0.
inline std::vector<pid_t> processes(pid_t parent, const std::string& word) {
    std::vector<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
        const pid_t pid = std::atoi(entry.path().filename().c_str());
        if (pid <= 0) continue;
        const std::string stat = text_of_process(entry.path() / "stat");
        const size_t name_end = stat.rfind(')');
        if (name_end == std::string::npos) continue;
        const pid_t its_parent = std::atoi(stat.c_str() + name_end + 4);
        if (stat[name_end + 2] == 'Z' || (parent != 0 && its_parent != parent)) continue;
        if (text_of_process(entry.path() / "cmdline").find(word) != std::string::npos) found.push_back(pid);
    }
    return found;
}

class agent_process {
public:
    // As the library starts it: it ends with its last rank.  `before` runs in its process before its program.
    explicit agent_process(void (*before)() = nullptr) {
        const std::string program = need_program();
        // With a job's number, a start takes over from the one before at once instead of watching it for a while.
        const pid_t starter = ::fork();
        if (starter == 0) {
            if (before != nullptr) before();
            ::execl(program.c_str(), "varde-agent", "--embedded", "--job", "7", "--socket", socket_path().c_str(),
                    "--arena-bytes", "4194304", nullptr);
            ::_exit(127);
        }
        int status = 0;
        cr_assert_eq(::waitpid(starter, &status, 0), starter);
        cr_assert_eq(status, 0);
        wait_for([&] { return worker() != 0; }, "the worker");
    }
    // As the prolog does, on a socket that is there already: it stays until it is told to end.
    struct by_prolog {
        std::string plan{};  // text; empty: none
    };
    explicit agent_process(const by_prolog& how) {
        const std::string program = need_program();
        const unique_fd listening(::socket(AF_UNIX, SOCK_STREAM, 0));
        const sockaddr_un address = address_of();
        cr_assert_eq(::bind(listening.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
        cr_assert_eq(::listen(listening.get(), 16), 0);
        const std::string plan = directory_.path() + "/plan";
        if (!how.plan.empty()) std::ofstream(plan) << how.plan;
        holder_ = ::fork();
        if (holder_ == 0) {
            const std::string number = std::to_string(listening.get());
            ::execl(program.c_str(), "varde-agent", "--listen-fd", number.c_str(), "--job", "7", "--slurm-bin",
                    directory_.path().c_str(), "--arena-bytes", "4194304", how.plan.empty() ? nullptr : "--plan",
                    plan.c_str(), nullptr);
            ::_exit(127);
        }
    }
    void end() {
        cr_assert_eq(::kill(holder_, SIGTERM), 0);
        int status = 0;
        wait_for([&] { return ::waitpid(holder_, &status, WNOHANG) == holder_; }, "the end of the agent", 20'000);
        cr_assert_eq(status, 0);
        holder_ = 0;
    }
    ~agent_process() {
        for (const pid_t pid : processes(0, socket_path())) ::kill(pid, SIGKILL);
        if (holder_ == 0) return;
        for (const pid_t pid : processes(holder_, "varde-agent")) ::kill(pid, SIGKILL);
        ::kill(holder_, SIGKILL);
        ::waitpid(holder_, nullptr, 0);
    }
    // The holder and its child have one command line.
    pid_t worker() const {
        if (holder_ != 0) {
            const auto children = processes(holder_, "varde-agent");
            return children.empty() ? 0 : children[0];
        }
        for (const pid_t pid : processes(0, socket_path())) {
            const auto children = processes(pid, socket_path());
            if (!children.empty()) return children[0];
        }
        return 0;
    }
    bool alive() const { return !processes(0, socket_path()).empty(); }
    template <class F>
    static void wait_for(F what, const char* name, uint64_t ms = 8000) {
        for (const auto until = deadline::in_ms(ms); !what();) {
            cr_assert(!until.passed(), "%s did not come", name);
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
    }
    std::string socket_path() const { return directory_.path() + "/agent.sock"; }
    std::string run_path() const { return directory_.path() + "/ckpt"; }
    unique_fd connect() const {
        unique_fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const sockaddr_un address = address_of();
        cr_assert_eq(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
        return fd;
    }

private:
    static std::string need_program() {
        std::string program = agent_program();
        if (::access(program.c_str(), X_OK) != 0) cr_skip_test("no varde-agent at '%s'", program.c_str());
        return program;
    }
    sockaddr_un address_of() const {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path().c_str());
        return address;
    }

    pid_t holder_ = 0;  // our child, where it is by_prolog
    temporary_directory directory_;
};

// One rank in the library's place.
class fake_rank {
public:
    fake_rank(const agent_process& agent, uint32_t rank, uint32_t world, const std::string& launch)
        : agent_(agent), range_(make_range(rank, 300'000 + rank)) {
        facts_.rank = facts_.local_rank = rank;
        facts_.world = facts_.local_count = world;
        facts_.node_count = 1;
        facts_.launch = launch;
        facts_.directory = agent.run_path();
        facts_.name = "run";
    }
    void want(int numa_node) { facts_.numa_node = numa_node; }
    void hello(bool again = false) {
        socket_ = agent_.connect();
        reader_ = {};
        facts_.again = again ? 1 : 0;
        send(facts_);
        const auto frame = receive();
        cr_assert(frame.type == message::welcome, "%s", frame.payload.c_str());
        const auto body = need(arena::decode<arena::welcome>(frame.payload));
        cr_assert_eq(fds_.size(), 2);
        memory_ = need(map_memory(std::move(fds_[0]), std::move(fds_[1])));
        fds_.clear();
        chunk_bytes_ = body.chunk_bytes;
        slab_offset = body.slab_offset;
        slab_ = memory_.arena.data() + slab_offset;
        places_ = body.slab_bytes / body.chunk_bytes;
        send(arena::layout{1, range_.shards});
    }
    void ask_restore() { send(arena::restore{1}); }
    // The step that was restored; every chunk is compared with what was saved at `step`.
    uint64_t restored(uint64_t saved_step = 0) {
        for (;;) {
            const auto frame = receive(10'000);
            if (frame.type == message::restored) return need(arena::decode<arena::restored>(frame.payload)).step;
            cr_assert(frame.type == message::restore_chunk, "type %d: %s", static_cast<int>(frame.type),
                      frame.payload.c_str());
            const auto chunk = need(arena::decode<arena::restore_chunk>(frame.payload));
            const auto expected = bytes_of(range_, seed(saved_step));
            for (const auto& copy : chunk.copies) {
                const auto& shard = range_.shards[copy.shard_index];
                cr_assert(std::memcmp(slab_ + copy.place_offset,
                                      expected.data() + shard.offset_bytes + copy.shard_offset, copy.size_bytes) == 0);
                got_bytes += copy.size_bytes;
            }
            send(arena::chunk_taken{chunk.ticket});
        }
    }
    uint64_t count() const { return pack::chunk_count(range_.size_bytes, chunk_bytes_); }
    void announce(uint64_t step) {
        first_ = next_;
        next_ += count();
        control()->progress_step = step;
        control()->saving_step = step;
        send(arena::save{step, 1, first_, count()});
    }
    void stage(uint64_t step, uint64_t chunks) {
        const auto bytes = bytes_of(range_, seed(step));
        for (uint64_t i = control()->staged.load() - first_; i < chunks; i++) {
            const uint64_t size = std::min(chunk_bytes_, bytes.size() - i * chunk_bytes_);
            std::memcpy(slab_ + (first_ + i) % places_ * chunk_bytes_, bytes.data() + i * chunk_bytes_, size);
            control()->staged = first_ + i + 1;
            arena::ring(node()->doorbell);
        }
    }
    void save(uint64_t step) {
        announce(step);
        stage(step, count());
    }
    void bye() {
        send(arena::bye{});
        cr_assert(receive().type == message::bye);
    }
    void close() { socket_.reset(); }
    template <class T>
    void send(const T& body) {
        need(arena::send_all(socket_.get(), arena::frame_of(body), {}, 2000));
    }
    arena::frame receive(int timeout_ms = 8000) {
        arena::frame out;
        while (!need(reader_.next(out))) {
            pollfd ready{socket_.get(), POLLIN, 0};
            cr_assert(::poll(&ready, 1, timeout_ms) == 1, "rank %u waits for the agent", facts_.rank);
            read_some();
        }
        return out;
    }
    arena::rank_control* control() { return arena::rank_of(memory_.control.data(), facts_.local_rank); }
    arena::node_control* node() { return arena::node_of(memory_.control.data()); }

    uint64_t got_bytes = 0;
    uint64_t slab_offset = 0;

private:
    uint64_t seed(uint64_t step) const { return step * 100 + facts_.rank; }
    void read_some() {
        char buffer[65536];
        alignas(cmsghdr) char control_bytes[CMSG_SPACE(2 * sizeof(int))];
        iovec part{buffer, sizeof buffer};
        msghdr head{};
        head.msg_iov = &part;
        head.msg_iovlen = 1;
        head.msg_control = control_bytes;
        head.msg_controllen = sizeof control_bytes;
        const ssize_t got = ::recvmsg(socket_.get(), &head, MSG_CMSG_CLOEXEC);
        cr_assert(got > 0, "the agent has closed the connection of rank %u", facts_.rank);
        for (cmsghdr* one = CMSG_FIRSTHDR(&head); one != nullptr; one = CMSG_NXTHDR(&head, one)) {
            int numbers[2];
            std::memcpy(numbers, CMSG_DATA(one), sizeof numbers);
            for (const int number : numbers) fds_.emplace_back(number);
        }
        reader_.feed({buffer, static_cast<size_t>(got)});
    }

    const agent_process& agent_;
    pack::range range_;
    arena::hello facts_;
    unique_fd socket_;
    arena::frame_reader reader_;
    std::vector<unique_fd> fds_;
    node_memory memory_;
    std::byte* slab_ = nullptr;
    uint64_t chunk_bytes_ = 0, places_ = 0, first_ = 0, next_ = 0;
};

}  // namespace agent_test
