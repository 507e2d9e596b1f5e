// The environment of prolog and epilog.
#include "prolog/request.h"

#include "base/units.h"

#include <cstdlib>

namespace varde::node {

namespace {

result<uint32_t> read_id(environment get, const char* name) {
    const char* text = get(name);
    if (text == nullptr)
        return fail(code::invalid, std::string(name) + " is not set; Slurm sets it for its prolog and epilog");
    // The largest 32-bit number is Slurm's "no value" and the kernel's "no user".
    auto number = parse_number(text, UINT32_MAX - 1);
    if (!number)
        return fail(code::invalid, std::string(name) + " is '" + printable(text) + "': " + number.error().context);
    return static_cast<uint32_t>(*number);
}

}  // namespace

const char* own_variable(const char* name) noexcept { return std::getenv(name); }

result<uint32_t> read_job_id(environment get) {
    auto id = read_id(get, "SLURM_JOB_ID");
    if (id && *id == 0) return fail(code::invalid, "SLURM_JOB_ID is '0'; jobs have numbers from 1");
    return id;
}

result<request> read_request(environment get) {
    const auto job = read_job_id(get);
    const auto uid = read_id(get, "SLURM_JOB_UID");
    const auto gid = read_id(get, "SLURM_JOB_GID");
    for (const auto* each : {&job, &uid, &gid})
        if (!*each) return each->error();
    // An agent of root would follow a user's paths with root's rights.
    if (*uid == 0) return fail(code::invalid, "root's jobs get no agent; submit the job as an ordinary user");
    request found;
    found.job_id = *job;
    found.uid = *uid;
    found.gid = *gid;
    if (get("SLURM_JOB_RESTART_COUNT") != nullptr) {
        const auto count = read_id(get, "SLURM_JOB_RESTART_COUNT");
        if (!count) return count.error();
        found.restart_count = *count;
    }
    if (get("SLURM_JOB_NUM_NODES") != nullptr) {
        const auto count = read_id(get, "SLURM_JOB_NUM_NODES");
        if (!count) return count.error();
        found.node_count = *count;
    }
    if (const char* user = get("SLURM_JOB_USER")) found.user = user;
    if (const char* name = get("SLURM_JOB_NAME")) found.job_name = name;
    if (const char* directory = get("SLURM_JOB_WORK_DIR")) found.work_directory = directory;
    auto wish = options_from_environment("SPANK_VARDE_", get);
    if (!wish) return std::move(wish).error();
    found.wish = std::move(*wish);
    return found;
}

}  // namespace varde::node
