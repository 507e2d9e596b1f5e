// Inbox and task thread.
#include "agent/tasks.h"

#include <pthread.h>
#include <sys/eventfd.h>

namespace varde::agent {

inbox::inbox() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void inbox::post(task what) {
    {
        const std::lock_guard guard(mutex_);
        tasks_.push_back(std::move(what));
    }
    ::eventfd_write(event_.get(), 1);
}

void inbox::run() {
    eventfd_t count = 0;
    ::eventfd_read(event_.get(), &count);
    std::deque<task> ready;
    {
        const std::lock_guard guard(mutex_);
        ready.swap(tasks_);
    }
    for (auto& what : ready) what();
}

task_thread::task_thread(const char* name) : thread_([this] { work(); }) {
    ::pthread_setname_np(thread_.native_handle(), name);
}

task_thread::~task_thread() {
    {
        const std::lock_guard guard(mutex_);
        stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void task_thread::post(task what) {
    {
        const std::lock_guard guard(mutex_);
        tasks_.push_back(std::move(what));
    }
    changed_.notify_all();
}

bool task_thread::idle() const {
    const std::lock_guard guard(mutex_);
    return tasks_.empty() && !busy_;
}

void task_thread::work() {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
        if (stop_) return;
        task what = std::move(tasks_.front());
        tasks_.pop_front();
        busy_ = true;
        lock.unlock();
        what();
        lock.lock();
        busy_ = false;
    }
}

}  // namespace varde::agent
