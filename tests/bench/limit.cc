// How well a node keeps to agent.write_limit: by how much the speed of a checkpoint, from varde_save until it is
// durable, is off the limit.
#include "trainer.h"

#include "base/units.h"

#include <cerrno>
#include <cmath>
#include <fstream>
#include <sys/stat.h>

namespace varde::bench {

namespace {

constexpr uint64_t limit_bytes_per_s = 256ULL << 20;  // far below what storage takes that is worth a limit
constexpr uint64_t size_bytes = 512ULL << 20;

}  // namespace

result<figures> limit_figures(const settings& with) {
    settings limited = with;
    const std::string config = with.directory + "/limited.yaml";
    std::ofstream(config) << "agent: {write_limit: " << limit_bytes_per_s << "}\n";
    if (::chmod(config.c_str(), 0600) != 0) return os_error(errno, "couldn't write '" + config + "'");
    limited.agent_options.insert(limited.agent_options.end(), {"--config", config});
    const auto job = trainer::start(limited, {.name = "limited", .ranks = 2, .size_bytes = size_bytes});
    if (!job) return job.error();
    if (const result<uint64_t> fresh = (*job)->restore(); !fresh) return fresh.error();
    uint64_t step = 0;
    const auto seconds = take_turns(with, "write_limit_error", {[&] { return (*job)->save_durably(++step); }});
    if (!seconds) return seconds.error();
    if (const result<void> closed = (*job)->close(); !closed) return closed.error();
    std::vector<double> errors;
    for (const double one : (*seconds)[0])
        errors.push_back(std::abs(static_cast<double>(size_bytes) / one / static_cast<double>(limit_bytes_per_s) - 1));
    return figures{median_of("write_limit_error", "", errors, goal_kind::at_most, 0.10,
                             speed_text(size_bytes, (*seconds)[0]) + " where agent.write_limit is " +
                                 format_bytes(limit_bytes_per_s) + " a second")};
}

}  // namespace varde::bench
