// Threads that do work for the agent's main loop, and how their results come back to it.
//
// The main loop owns all state of the agent.  Whatever may wait for storage or for a program runs as a task on another
// thread and ends by posting a closure to the main loop's inbox; so no state is shared and there is no lock in the
// logic.
#pragma once

#include "base/handle.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace varde::agent {

using task = std::function<void()>;

// Closures for the main loop; post() from any thread.
class inbox {
public:
    inbox();
    int fd() const noexcept { return event_.get(); }  // readable while there is something
    void post(task what);
    void run();  // main loop: carries out what is there

private:
    unique_fd event_;
    std::mutex mutex_;
    std::deque<task> tasks_;
};

// One thread that carries out tasks in order.
class task_thread {
public:
    explicit task_thread(const char* name);
    ~task_thread();  // finishes what it is at; tasks not yet begun are dropped
    void post(task what);
    bool idle() const;

private:
    void work();
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<task> tasks_;
    bool busy_ = false;
    bool stop_ = false;
    std::thread thread_;
};

}  // namespace varde::agent
