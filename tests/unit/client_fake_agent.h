// A small agent in a thread of the test: speaks the protocol for one rank, drains the ring into memory, and
// misbehaves on demand.
#pragma once

#include "arena/control.h"
#include "arena/protocol.h"
#include "base/clock.h"
#include "base/limits.h"
#include "client/run.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <poll.h>
#include <random>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace varde::test {

using bytes = std::vector<std::byte>;

inline std::string make_directory() {
    char path[] = "/tmp/varde-test-XXXXXX";
    return ::mkdtemp(path);
}

class fake_agent {
public:
    struct ways {
        uint64_t chunk_bytes = 4096;
        uint64_t places = 8;
        uint64_t places_said = 0;  // in the welcome, where it differs
        bool answers_hello = true;
        bool answers_give_up = true;
        bool restores = true;
        uint64_t magic = arena::control_magic;
        arena::refused refusal{code::ok, ""};  // instead of a welcome
    };

    fake_agent() : fake_agent(ways{}) {}
    explicit fake_agent(const ways& how) : how_(how), directory_(make_directory()), path_(directory_ + "/agent.sock") {
        make_memory();
        listen_again();
        thread_ = std::thread([this] { serve(); });
    }
    ~fake_agent() {
        stop_ = true;
        thread_.join();
        ::unlink(path_.c_str());
        ::rmdir(directory_.c_str());
    }
    fake_agent(const fake_agent&) = delete;
    fake_agent& operator=(const fake_agent&) = delete;

    const std::string& path() const { return path_; }
    arena::node_control* node() { return arena::node_of(control_.data()); }
    arena::rank_control* rank() { return arena::rank_of(control_.data(), 0); }

    // What a test wants: all may be changed at any time.
    std::atomic<bool> drains{true};
    std::atomic<bool> accepts{true};
    std::atomic<bool> completes{true};
    std::atomic<bool> stopped{false};                     // as after SIGSTOP
    std::atomic<uint64_t> drop_after_chunks{UINT64_MAX};  // closes the connection once so many chunks were taken
    std::function<std::vector<std::string>(const arena::layout&)> answer_restore;  // frames, instead of the honest ones
    bytes image;  // what an honest restore gives back: a range
    uint64_t image_step = 0;

    void drop() {
        drop_ = true;
        while (drop_) ::usleep(1000);
    }
    void say(std::string frame) {
        const std::lock_guard lock(mutex_);
        to_say_.push_back(std::move(frame));
    }
    void replace_memory() {
        replace_ = true;
        while (replace_) ::usleep(1000);
    }

    // What a test looks at.
    bytes drained(uint64_t step) {
        const std::lock_guard lock(mutex_);
        return saved_.contains(step) ? saved_[step] : bytes{};
    }
    std::vector<arena::hello> hellos() {
        const std::lock_guard lock(mutex_);
        return hellos_;
    }
    std::vector<arena::layout> layouts() {
        const std::lock_guard lock(mutex_);
        return layouts_;
    }
    std::vector<arena::save> saves() {
        const std::lock_guard lock(mutex_);
        return saves_;
    }
    std::atomic<int> give_ups{0};
    std::atomic<int> byes{0};
    std::atomic<uint64_t> chunks_taken{0};

private:
    void make_memory() {
        control_fd_ = unique_fd(::memfd_create("control", MFD_CLOEXEC));
        arena_fd_ = unique_fd(::memfd_create("arena", MFD_CLOEXEC));
        const uint64_t arena_bytes = how_.chunk_bytes * how_.places;
        if (::ftruncate(control_fd_.get(), arena::control_bytes) != 0 ||
            ::ftruncate(arena_fd_.get(), static_cast<off_t>(arena_bytes)) != 0)
            std::abort();
        control_ = map(control_fd_.get(), arena::control_bytes);
        arena_ = map(arena_fd_.get(), arena_bytes);
        node()->magic = how_.magic;
        node()->version = arena::control_version;
    }
    static mapping map(int fd, uint64_t size) {
        return {::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), size};
    }

    void listen_again() {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path_.copy(address.sun_path, sizeof address.sun_path - 1);
        listening_ = unique_fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (::bind(listening_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
            ::listen(listening_.get(), 8) != 0)
            std::abort();
    }

    void serve() {
        while (!stop_) {
            if (stopped) {
                ::usleep(1000);
                continue;
            }
            if (replace_) {
                make_memory();
                wire_.reset();
                replace_ = false;
            }
            if (drop_) {
                wire_.reset();
                drop_ = false;
            }
            if (!wire_ && accepts) {
                wire_ = unique_fd(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
                reader_ = {};
            }
            read_frames();
            say_frames();
            drain();
            ::usleep(200);
        }
    }
    void read_frames() {
        char buffer[65536];
        if (!wire_) return;
        const ssize_t length = ::recv(wire_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
        if (length == 0) return wire_.reset();
        if (length < 0) return;
        reader_.feed({buffer, static_cast<size_t>(length)});
        arena::frame one;
        while (wire_ && reader_.next(one).value()) handle(one);
    }
    template <class T>
    void send(const T& body, std::span<const int> fds = {}) {
        send_frame(arena::frame_of(body), fds);
    }
    void send_frame(const std::string& frame, std::span<const int> fds = {}) {
        discard(arena::send_all(wire_.get(), frame, fds, 1000), "the peer may be gone");
    }
    void say_frames() {
        const std::lock_guard lock(mutex_);
        if (!wire_) return;
        for (const auto& frame : to_say_) send_frame(frame);
        to_say_.clear();
    }

    void handle(const arena::frame& one) {
        const std::lock_guard lock(mutex_);
        using arena::message;
        switch (one.type) {
        case message::hello: return welcome(arena::decode<arena::hello>(one.payload).value());
        case message::layout: layouts_.push_back(arena::decode<arena::layout>(one.payload).value()); return;
        case message::restore: return restore();
        case message::chunk_taken: return;
        case message::save: {
            const auto body = arena::decode<arena::save>(one.payload).value();
            saves_.push_back(body);
            told_ = true;
            // As the agent: a save that is said again is known already.
            if (!saved_.contains(body.step)) {
                current_ = body;
                saved_[body.step];
            }
            return;
        }
        case message::give_up:
            give_ups++;
            if (how_.answers_give_up) {
                given_up_end_ = current_.first_chunk + current_.chunk_count;
                send(arena::decode<arena::give_up>(one.payload).value());
            }
            current_ = {};
            return;
        case message::bye:
            byes++;
            send(arena::bye{});
            return;
        default: return;
        }
    }
    void welcome(const arena::hello& body) {
        hellos_.push_back(body);
        if (!how_.answers_hello) return;
        if (how_.refusal.what != code::ok) return send(how_.refusal);
        const uint64_t slab = how_.chunk_bytes * (how_.places_said != 0 ? how_.places_said : how_.places);
        const int fds[] = {control_fd_.get(), arena_fd_.get()};
        send(arena::welcome{how_.chunk_bytes, slab, 0, slab}, fds);
    }
    void restore() {
        if (!how_.restores) return;
        if (answer_restore) {
            for (const auto& frame : answer_restore(layouts_.back())) send_frame(frame);
            return;
        }
        // Each shard piece by piece through place 0; the rank takes them in order.
        const auto range = pack::arrange(0, layouts_.back().shards).value();
        for (uint32_t index = 0; image_step != 0 && index < range.shards.size(); index++) {
            const auto& shard = range.shards[index];
            for (uint64_t done = 0; done < shard.size_bytes;) {
                const uint64_t size = std::min(how_.chunk_bytes, shard.size_bytes - done);
                std::memcpy(arena_.data(), image.data() + shard.offset_bytes + done, size);
                send(arena::restore_chunk{0, {{index, done, 0, size}}});
                wait_for_taken();
                done += size;
            }
        }
        send(arena::restored{image_step, 7});
    }
    void wait_for_taken() {
        arena::frame one;
        char buffer[4096];
        while (!reader_.next(one).value()) {
            pollfd ready{wire_.get(), POLLIN, 0};
            ::poll(&ready, 1, 5000);
            const ssize_t length = ::recv(wire_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
            if (length <= 0) return;
            reader_.feed({buffer, static_cast<size_t>(length)});
        }
    }

    void drain() {
        const std::lock_guard lock(mutex_);
        if (given_up_end_ != 0 && rank()->staged.load() >= given_up_end_) {
            // The chunks that were left out.
            rank()->released = given_up_end_;
            arena::ring(rank()->released_news);
            given_up_end_ = 0;
        }
        if (!drains || !wire_ || !told_ || current_.step == 0) return;
        auto& target = saved_[current_.step];
        while (rank()->released.load() < current_.first_chunk + current_.chunk_count &&
               rank()->staged.load() > rank()->released.load()) {
            if (chunks_taken == drop_after_chunks) {
                wire_.reset();
                told_ = false;
                drop_after_chunks = UINT64_MAX;
                return;
            }
            const uint64_t number = rank()->released.load();
            const auto* place = arena_.data() + (number % how_.places) * how_.chunk_bytes;
            target.insert(target.end(), place, place + how_.chunk_bytes);
            std::memset(arena_.data() + (number % how_.places) * how_.chunk_bytes, 0xdd, how_.chunk_bytes);
            chunks_taken++;
            rank()->released = number + 1;
            arena::ring(rank()->released_news);
        }
        if (rank()->released.load() != current_.first_chunk + current_.chunk_count || !completes) return;
        node()->complete_step = current_.step;
        arena::ring(node()->news);
        current_ = {};
    }

    ways how_;
    std::string directory_, path_;
    unique_fd control_fd_, arena_fd_, listening_, wire_;
    mapping control_, arena_;
    arena::frame_reader reader_;
    std::atomic<bool> stop_{false}, drop_{false}, replace_{false};
    std::mutex mutex_;
    std::vector<std::string> to_say_;
    std::vector<arena::hello> hellos_;
    std::vector<arena::layout> layouts_;
    std::vector<arena::save> saves_;
    std::map<uint64_t, bytes> saved_;
    arena::save current_;
    bool told_ = true;  // false from a drop on, until the new worker has been told the save again
    uint64_t given_up_end_ = 0;
    std::thread thread_;
};

// ---- The rank's side of a test

inline client::settings some_settings(const fake_agent& agent) {
    client::settings with;
    with.where.launch = "test 1";
    with.directory = "/tmp/runs";
    with.name = "run";
    with.socket = agent.path();
    with.copy_threads = 3;
    return with;
}

inline const client::patience short_patience{
    .open_ms = 1000, .ring_ms = 300, .restore_ms = 500, .bye_ms = 500, .retry = {5, 50, 1000}};

inline const char* no_environment(const char*) { return nullptr; }

struct opened_run {
    client::progress_page progress;
    std::unique_ptr<client::run> run;
    client::run* operator->() { return run.get(); }
};

// A run, opened and restored.
inline std::unique_ptr<opened_run> open_run(const fake_agent& agent, bool restored = true) {
    auto made = std::make_unique<opened_run>();
    auto opened = client::run::open(some_settings(agent), no_environment, {"host", {1, 1}, {1, 1}}, short_patience,
                                    made->progress);
    if (!opened) {
        std::fprintf(stderr, "open: %s\n", opened.error().context.c_str());
        std::abort();
    }
    made->run = std::move(*opened);
    if (restored && !made->run->restore()) std::abort();
    return made;
}

// Tensors with random types, shapes and bytes.
struct tensors {
    std::mt19937_64 random;
    std::vector<pack::shard> shards;
    std::vector<bytes> data;

    tensors(uint64_t seed, size_t count, uint64_t elements_max) : random(seed) {
        for (size_t i = 0; i < count; i++) {
            pack::shard one;
            one.name = "tensor " + std::to_string(i);
            one.type = std::array{pack::dtype::u8, pack::dtype::bf16, pack::dtype::f32, pack::dtype::f64}[random() % 4];
            one.shape = {random() % elements_max, 1 + random() % 3};
            if (random() % 8 == 0) one.shape = {};
            data.emplace_back(pack::arrange(0, {one}).value().data_bytes);
            shards.push_back(std::move(one));
        }
        scramble();
    }
    void scramble() {
        for (auto& each : data)
            for (auto& byte : each) byte = static_cast<std::byte>(random());
    }
    bool add_to(client::run& run) {
        for (size_t i = 0; i < shards.size(); i++)
            if (!run.add(shards[i], data[i].data())) return false;
        return true;
    }
    // The range as it should arrive: in the order of arrange(), zeros up to a multiple of 4096.
    bytes range() const {
        const auto made = pack::arrange(0, shards).value();
        bytes all(made.size_bytes);
        for (const auto& placed : made.shards)
            for (size_t i = 0; i < shards.size(); i++)
                if (shards[i].name == placed.name && !data[i].empty())
                    std::memcpy(all.data() + placed.offset_bytes, data[i].data(), data[i].size());
        return all;
    }
};

// A wait for something that another thread does, with an end.
template <class Condition>
bool eventually(Condition condition, uint64_t ms = 5000) {
    const auto until = deadline::in_ms(ms);
    while (!until.passed()) {
        if (condition()) return true;
        ::usleep(1000);
    }
    return condition();
}

}  // namespace varde::test
