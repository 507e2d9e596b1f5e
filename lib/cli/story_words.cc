// A story's words.
#include "cli/story.h"

#include "base/clock.h"
#include "base/units.h"
#include "pack/text.h"

#include <ctime>
#include <fmt/format.h>

namespace varde::cli {

const std::array<const char*, part_count> part_names = {"rollback", "detect", "requeue",   "schedule",
                                                        "launch",   "load",   "first step"};

std::string span_text(uint64_t ns) {
    if (ns == 0) return "0";
    if (ns < ns_per_ms) return "<1 ms";
    if (ns < ns_per_s) return fmt::format("{} ms", ns / ns_per_ms);
    if (ns < 60 * ns_per_s) return fmt::format("{:.1f} s", static_cast<double>(ns) / 1e9);
    return format_duration(ns / ns_per_s);
}

std::string clock_text(uint64_t wall_ns) {
    const auto seconds = static_cast<time_t>(wall_ns / ns_per_s);
    tm parts{};
    char text[64] = "";
    if (::localtime_r(&seconds, &parts) != nullptr) ::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
    return text;
}

const char* fate_name(fate what) noexcept {
    switch (what) {
    case fate::open: return "unfinished";
    case fate::complete: return "complete";
    case fate::late: return "late";
    case fate::failed: return "failed";
    case fate::damaged: return "damaged";
    }
    return "unfinished";
}

std::string shown(const std::string& text) {
    constexpr size_t shown_bytes_max = 300;
    return pack::escaped(text, shown_bytes_max);
}

}  // namespace varde::cli
