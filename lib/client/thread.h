// A thread in somebody else's process: it blocks every signal, so that the program's handlers never run on it, and is
// always joined.
#pragma once

#include "base/result.h"

#include <csignal>
#include <pthread.h>

namespace varde::client {

class thread {
public:
    thread() = default;
    thread(const thread&) = delete;
    thread& operator=(const thread&) = delete;
    ~thread() { join(); }

    // `name` is what top and gdb show, at most 15 bytes.
    result<void> start(const char* name, void* (*body)(void*), void* context);
    void join() noexcept {
        if (running_) ::pthread_join(id_, nullptr);
        running_ = false;
    }

private:
    // Small, but glibc takes the thread-local storage of every loaded library from it, and training programs load many.
    static constexpr size_t stack_bytes = 1 << 20;
    pthread_t id_{};
    bool running_ = false;
};

inline result<void> thread::start(const char* name, void* (*body)(void*), void* context) {
    pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    ::pthread_attr_setstacksize(&attributes, stack_bytes);
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited by the new thread
    const int error = ::pthread_create(&id_, &attributes, body, context);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ::pthread_attr_destroy(&attributes);
    if (error != 0) return os_error(error, std::string("couldn't start the thread '") + name + "'");
    discard(::pthread_setname_np(id_, name), "only for people who look");
    running_ = true;
    return {};
}

}  // namespace varde::client
