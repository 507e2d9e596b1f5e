// Waiting for the kernel to let go.
#include "agent/transfers.h"

#include "base/clock.h"

namespace varde::agent {

namespace {

constexpr uint64_t say_again_ms = 60'000;

}  // namespace

void settle_transfers(io::engine& engine, logger& log, const std::string& path) {
    for (;;) {
        auto done = engine.stop(deadline::in_ms(say_again_ms));
        // Any error but the time-out says that the engine is broken and holds nothing any more (engine.h).
        if (done || done.error().what != code::timeout) return;
        log.error("storage does not answer: transfers of '" + path +
                  "' are stuck; training goes on without new checkpoints");
    }
}

}  // namespace varde::agent
