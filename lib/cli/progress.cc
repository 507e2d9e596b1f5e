// The progress line.
#include "cli/progress.h"

#include "base/clock.h"
#include "base/units.h"

#include <algorithm>
#include <fmt/format.h>
#include <unistd.h>

namespace varde::cli {

namespace {

constexpr uint64_t redraw_ns = 100 * ns_per_ms;
constexpr size_t bar_width = 24;
constexpr const char* clear_line = "\r\x1b[K";

bool is_terminal(std::FILE* stream) noexcept {
    const int fd = ::fileno(stream);
    return fd >= 0 && ::isatty(fd) == 1;
}

}  // namespace

progress::progress(std::FILE* stream, uint64_t total_bytes) noexcept
    : stream_(stream), shown_(is_terminal(stream)), total_bytes_(total_bytes), start_ns_(mono_ns()) {}

std::string progress::line(uint64_t done_bytes, uint64_t total_bytes, uint64_t spent_ns) {
    const double part = total_bytes == 0
                            ? 1.0
                            : static_cast<double>(std::min(done_bytes, total_bytes)) / static_cast<double>(total_bytes);
    const double seconds = static_cast<double>(spent_ns) / static_cast<double>(ns_per_s);
    const double speed = seconds > 0 ? static_cast<double>(done_bytes) / seconds : 0;
    const auto filled = static_cast<size_t>(part * static_cast<double>(bar_width));
    std::string text = fmt::format("[{:<{}}] {:3.0f} %, {} of {}", std::string(filled, '#'), bar_width, part * 100,
                                   format_bytes(done_bytes), format_bytes(total_bytes));
    if (speed > 0 && done_bytes < total_bytes)
        text +=
            fmt::format(", {}/s, {} left", format_bytes(static_cast<uint64_t>(speed)),
                        format_duration(static_cast<uint64_t>(static_cast<double>(total_bytes - done_bytes) / speed)));
    return text;
}

void progress::add(uint64_t bytes) {
    const uint64_t done = done_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (!shown_) return;
    // Whoever comes while another draws goes on with its work.
    const std::unique_lock lock(mutex_, std::try_to_lock);
    const uint64_t now = mono_ns();
    if (!lock || now - drawn_ns_ < redraw_ns) return;
    drawn_ns_ = now;
    fmt::print(stream_, "{}{}", clear_line, line(done, total_bytes_, now - start_ns_));
    std::fflush(stream_);
}

void progress::clear() {
    if (!shown_) return;
    const std::lock_guard lock(mutex_);
    fmt::print(stream_, "{}", clear_line);
    std::fflush(stream_);
}

}  // namespace varde::cli
