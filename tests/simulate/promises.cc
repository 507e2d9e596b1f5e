// Promises, and the events before one was broken.
#include "promises.h"

#include "base/clock.h"

#include <cstdio>

namespace varde::simulate {

namespace {

constexpr size_t events_max = 30;

std::string at(uint64_t now_ns) {
    char text[40];
    std::snprintf(text, sizeof text, "%12.3f s  ", static_cast<double>(now_ns) / static_cast<double>(ns_per_s));
    return text;
}

}  // namespace

void promises::note(uint64_t now_ns, const std::string& what) {
    if (broken()) return;
    events_.push_back(at(now_ns) + what);
    if (events_.size() > events_max) events_.pop_front();
}

void promises::hold(bool held, uint64_t now_ns, const std::string& promise) {
    if (!held && !broken()) broken_ = at(now_ns) + "BROKEN: " + promise;
}

std::string promises::story() const {
    std::string text;
    for (const auto& event : events_) text += "  " + event + "\n";
    return text + "  " + broken_ + "\n";
}

}  // namespace varde::simulate
