// One line that tells how far long work is, on a terminal only.  Any thread may add.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>

namespace varde::cli {

class progress {
public:
    // Shows nothing where `stream` is no terminal.
    progress(std::FILE* stream, uint64_t total_bytes) noexcept;
    ~progress() { clear(); }
    progress(const progress&) = delete;
    progress& operator=(const progress&) = delete;

    void add(uint64_t bytes);
    void clear();  // before anything else is printed

    // "[######    ]  60 %, 1.2 of 2 GiB, 850 MiB/s, 1s left"
    static std::string line(uint64_t done_bytes, uint64_t total_bytes, uint64_t spent_ns);

private:
    std::FILE* stream_;
    const bool shown_;
    const uint64_t total_bytes_;
    const uint64_t start_ns_;
    std::atomic<uint64_t> done_bytes_{0};
    std::mutex mutex_;  // of drawing
    uint64_t drawn_ns_ = 0;
};

}  // namespace varde::cli
