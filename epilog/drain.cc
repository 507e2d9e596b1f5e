// From state.json to nothing.
#include "epilog/drain.h"

#include "prolog/arena.h"
#include "prolog/directory_probe.h"
#include "prolog/job_directory.h"
#include "prolog/log.h"
#include "prolog/route_ledger.h"
#include "prolog/state.h"

#include <syslog.h>

namespace varde::node {

namespace {

// Nobody comes again for this job: Slurm runs its epilog once.
failure leave(const job_directory& directory, failure why) {
    const auto marked = directory.write_file(left_name, "");
    if (!marked) log_line(LOG_WARNING, marked.error().context);
    why.context += "; the next epilog of a job with checkpoints tries again";
    return why;
}

}  // namespace

result<void> end_job(const std::string& run_directory, uint32_t job_id, int drain_ms, stop_function stop) {
    auto directory = job_directory::open(run_directory, job_id);
    if (!directory) return directory.error().what == code::not_found ? result<void>() : std::move(directory).error();
    const state known = known_state(*directory, job_id);
    // SIGKILL waits for it in the kernel, so nothing of the job's has to stay for it.
    if (!end_left_probe(known)) log_line(LOG_WARNING, held_probe_line(known));
    const auto outcome = stop(known, drain_ms);
    // After the drain, which needs them.  Left over, they go with the next job that has any: this one counts no more.
    const auto released = release_routes(run_directory, job_id);
    if (!released) log_line(LOG_WARNING, released.error().context);
    if (!outcome) return leave(*directory, outcome.error());
    if (*outcome == stop_outcome::killed && drain_ms > 0)
        log_line(LOG_WARNING,
                 "varde-agent did not drain within " + std::to_string(drain_ms / 1000) +
                     " s and was killed; its last checkpoint may be incomplete, older ones are not touched");
    if (const auto arena = tear_down_arena(*directory); !arena) return leave(*directory, arena.error());
    return directory->remove();
}

}  // namespace varde::node
