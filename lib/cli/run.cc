// varde run: a step that is started again in its allocation when it fails or loses a node.
#include "base/clock.h"
#include "base/units.h"
#include "cli/supervisor.h"
#include "cli/verbs.h"
#include "client/settings.h"
#include "config/config.h"

#include <climits>
#include <cstdlib>
#include <unistd.h>

namespace varde::cli {

namespace {

const char* variable(const char* name) { return std::getenv(name); }

uint64_t number_of(const char* name) {
    const char* text = variable(name);
    const auto number = text != nullptr ? parse_number(text, UINT32_MAX) : result<uint64_t>(uint64_t{0});
    return number ? *number : 0;
}

std::string host_name() {
    if (const char* node = variable("SLURMD_NODENAME"); node != nullptr && *node != '\0') return node;
    char text[HOST_NAME_MAX + 1] = "";
    ::gethostname(text, sizeof text - 1);
    const std::string name(text);
    return name.substr(0, name.find('.'));
}

std::string working_directory() {
    char text[PATH_MAX] = "";
    return ::getcwd(text, sizeof text) != nullptr ? text : "";
}

// What can be known to go wrong is said before the training has begun.
result<void> check(const run_options& options) {
    if (options.command.empty())
        return fail(code::invalid, "couldn't run: give a command, as in 'varde run -- srun train'");
    const std::string& program = options.command[0];
    if (program.substr(program.rfind('/') + 1) != "srun")
        return fail(code::invalid,
                    "couldn't run '" + program + "': it starts steps of Slurm, so the command begins with srun");
    if (number_of("SLURM_JOB_ID") == 0)
        return fail(code::invalid, "couldn't run: this is no job of Slurm; use it in a batch script or under salloc");
    if (const auto option = find_node_option(options.command); !option.empty())
        return fail(code::invalid,
                    "couldn't run with '" + option +
                        "': varde run chooses the nodes; give srun their number alone (--nodes, --ntasks)");
    if (const char* launch = variable("VARDE_LAUNCH"); launch != nullptr && *launch != '\0')
        return fail(code::invalid,
                    "couldn't run with VARDE_LAUNCH set: each start of the step must have a name of its own");
    return {};
}

// The number that `varde run` and the agents keep to.
uint64_t max_restarts(const config& site, const std::string& of_job) {
    const auto number = parse_number(of_job, UINT32_MAX);
    return number ? *number : site.max_restarts;
}

// The job's, else the site's.
result<exit_codes> final_exits(const config& site) {
    for (const char* prefix : {"VARDE_", "SLURM_VARDE_"}) {
        const auto asked = options_from_environment(prefix, variable);
        if (!asked) return asked.error();
        if (asked->final_exits) return *asked->final_exits;
    }
    return site.final_exits;
}

result<run_settings> settings_of(const run_options& options) {
    if (auto good = check(options); !good) return good.error();
    const auto site = options.file.empty() ? load_config() : load_config(options.file);
    if (!site) return site.error();
    // As the ranks read them.
    const auto job = client::read_settings({}, variable, client::facts_of_this_process(), working_directory());
    if (!job) return job.error();
    run_settings made;
    made.arguments = options.command;
    made.slurm_bin = directory_of_program(options.command[0]);
    if (made.slurm_bin.empty()) return fail(code::not_found, "couldn't find '" + options.command[0] + "' in PATH");
    made.host = host_name();
    made.job_id = number_of("SLURM_JOB_ID");
    made.restart_count = number_of("SLURM_RESTART_COUNT");
    made.batch = job->batch;
    made.directory = job->directory;
    made.name = job->name;
    if (!options.run.empty()) {
        const size_t slash = options.run.find_last_not_of('/');
        const std::string path = options.run.substr(0, slash + 1);
        const size_t cut = path.rfind('/');
        if (path.empty() || path[0] != '/' || cut == 0)
            return fail(code::invalid, "couldn't use '--run " + options.run + "': give the run's absolute path");
        made.directory = path.substr(0, cut);
        made.name = path.substr(cut + 1);
    }
    made.max_restarts = max_restarts(*site, job->max_restarts);
    const auto final = final_exits(*site);
    if (!final) return final.error();
    made.final_exits = *final;
    made.silence_ns = site->silence_s * ns_per_s;
    made.pulse_ns = site->pulse_ms * ns_per_ms;
    return made;
}

}  // namespace

int run_step(const run_options& options, console to) {
    auto settings = settings_of(options);
    if (!settings) {
        complain(to, settings.error());
        return static_cast<int>(status::failed);
    }
    // Never destroyed: a thread of it may hang in dead storage.
    auto* watching = new supervisor(std::move(*settings), to);
    return watching->run();
}

}  // namespace varde::cli
