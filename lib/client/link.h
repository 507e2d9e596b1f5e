// The connection to the agent, kept by a service thread: sends, receives, and comes back when the agent's worker was
// restarted.
//
// The calling thread never touches the socket, so a full one or a stopped agent cannot hold it up.  After a loss the
// thread says hello again and repeats what the new worker may not know: the layout, and the work in hand (a restore,
// the newest save, or its give_up). A refusal is final: whatever the agent does not want now it will not want in a
// second.
//
// Thread-safe; start() and stop() belong to the run's calling thread.
#pragma once

#include "arena/control.h"
#include "arena/protocol.h"
#include "base/clock.h"
#include "base/handle.h"
#include "client/connect.h"
#include "client/thread.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <sys/types.h>

namespace varde::client {

struct retry_times {
    uint64_t first_ms = 100;  // doubles ...
    uint64_t most_ms = 5000;  // ... up to this
    uint64_t answer_ms = 10'000;
};

class link {
public:
    // A frame and the connection on which it came; an answer goes to the same one or nowhere.
    struct received {
        arena::frame what;
        uint64_t connection = 0;
    };

    link() = default;
    ~link() { stop(); }
    link(const link&) = delete;
    link& operator=(const link&) = delete;

    struct beginning {
        unique_fd socket;
        std::string path;
        arena::hello hello;
        const greeting* welcome = nullptr;  // its memfds tell the agent that we know from any other
        arena::node_control* node = nullptr;
        arena::rank_control* rank = nullptr;
        arena::frame_reader rest;
        retry_times retry;
    };
    result<void> start(beginning with);
    void stop();

    // Why there is no connection, or that the agent has refused us.
    result<void> health() const;

    void send_layout(std::string frame);
    void begin_restore(std::string frame);
    void begin_save(std::string frame, uint64_t step);
    // Says that `step` is given up; when the agent has answered, `staged` becomes `end_chunk`.
    void give_up(uint64_t step, uint64_t end_chunk);
    void end_work();
    void answer(std::string frame, uint64_t connection);

    // The next frame of a restore.  The refusal, if there was one; `timeout` when nothing came.
    result<received> receive(deadline until);
    // Says bye and waits for the answer, or for the connection's end.
    void say_bye(deadline until);

private:
    static void* enter(void* self);
    void run();
    void serve();
    result<void> read_some();
    result<void> write_some();
    result<void> take(arena::frame what);
    void lose(const failure& why);
    void reconnect();
    result<greeting> greet(unique_fd& socket);
    void adopt(unique_fd socket, arena::frame_reader rest);
    void repeat();
    void push(std::string frame);
    void wake() const noexcept;
    void rest_for(uint64_t ms) const;

    std::string path_;
    arena::hello hello_;
    arena::node_control* node_ = nullptr;
    arena::rank_control* rank_ = nullptr;
    std::array<std::pair<dev_t, ino_t>, 2> memory_{};
    arena::welcome place_;
    retry_times retry_;
    unique_fd wake_;
    thread thread_;

    // Service thread only.
    unique_fd socket_;
    arena::frame_reader reader_;
    std::string sending_;
    size_t sent_ = 0;
    uint64_t pause_ms_ = 0;

    mutable std::mutex mutex_;  // what follows
    std::condition_variable news_;
    bool stop_ = false;
    bool connected_ = false;
    bool final_ = false;  // refused, or closed by us: no way back
    bool bye_said_ = false;
    failure why_;  // of the loss or refusal
    uint64_t connection_ = 0;
    std::deque<std::string> out_;
    std::deque<received> in_;
    bool restoring_ = false;
    std::string layout_;  // frames to repeat
    std::string work_;
    uint64_t work_step_ = 0;  // 0: a restore
    uint64_t give_up_step_ = 0;
    uint64_t give_up_end_ = 0;
};

}  // namespace varde::client
