// Options over environment over defaults.
#include "client/settings.h"

#include "base/limits.h"
#include "base/units.h"
#include "client/crew.h"
#include "varde.h"

#include <unistd.h>

namespace varde::client {

namespace {

std::string text_of(environment get, const char* name) {
    const char* text = get(name);
    return text == nullptr ? std::string() : std::string(text);
}

// The --ckpt-* options as the environment has them; the texts of those that the agent judges again are kept as they
// are.
result<options> from_environment(environment get, settings& target) {
    options found;
    for (const option_rule& rule : option_rules()) {
        std::string variable = std::string("VARDE_") + rule.variable;
        std::string text = text_of(get, variable.c_str());
        if (text.empty()) {
            variable.insert(0, "SLURM_");
            text = text_of(get, variable.c_str());
        }
        if (text.empty()) continue;
        if (auto applied = apply_option(found, rule, text); !applied)
            return fail(applied.error().what,
                        applied.error().context + " (it comes from the variable " + variable + ")");
        const std::string_view name = rule.variable;
        if (name == "KEEP") target.keep = text;
        if (name == "RESTART") target.restart = text;
        if (name == "MAX_RESTARTS") target.max_restarts = text;
        if (name == "HANG_TIMEOUT") target.hang_timeout = text;
    }
    return found;
}

// A job's name may hold anything; a run's name is a directory.
std::string name_from_job(const std::string& job_name) {
    std::string name = job_name.substr(0, limits::run_name_bytes_max);
    for (char& c : name) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                           c == '_' || c == '-';
        if (!plain) c = '_';
    }
    return check_run_name(name) ? name : "run";
}

result<std::string> directory_of(const given_options& given, const options& asked, environment get,
                                 const std::string& working_directory) {
    std::string directory = given.directory;
    if (directory.empty() && !asked.directory.empty()) {
        pattern_values values{text_of(get, "SLURM_JOB_USER"), text_of(get, "SLURM_JOB_ID"),
                              text_of(get, "SLURM_JOB_NAME")};
        if (values.user.empty()) values.user = text_of(get, "USER");
        if (values.user.empty()) values.user = std::to_string(::geteuid());
        auto expanded = expand_directory(asked.directory, values);
        if (!expanded) return std::move(expanded).error();
        directory = *expanded;
    }
    if (directory.empty()) directory = "checkpoints";
    if (directory.front() != '/') {
        if (working_directory.empty())
            return fail(code::invalid, "couldn't find the directory '" + directory +
                                           "': the working directory is not known; give an absolute path");
        directory = working_directory + (working_directory.back() == '/' ? "" : "/") + directory;
    }
    if (directory.size() >= limits::path_bytes_max)
        return fail(code::invalid, "couldn't use the directory '" + directory.substr(0, 64) + "...': its path has " +
                                       std::to_string(directory.size()) + " bytes, more than " +
                                       std::to_string(limits::path_bytes_max - 1));
    return directory;
}

result<uint32_t> copy_threads_of(environment get) {
    const std::string text = text_of(get, "VARDE_COPY_THREADS");
    if (text.empty()) return 0U;
    const auto count = parse_number(text, crew::threads_max);
    if (!count || *count == 0)
        return fail(code::invalid, "couldn't read VARDE_COPY_THREADS='" + text + "': it is no number from 1 to " +
                                       std::to_string(crew::threads_max));
    return static_cast<uint32_t>(*count);
}

}  // namespace

result<settings> read_settings(const given_options& given, environment get, const process_facts& facts,
                               const std::string& working_directory) {
    settings made;
    auto asked = from_environment(get, made);
    if (!asked) return std::move(asked).error();

    const std::string launch = given.launch.empty() ? text_of(get, "VARDE_LAUNCH") : given.launch;
    auto where = find_place(given.numbers, launch, get, facts);
    if (!where) return std::move(where).error();
    made.where = *where;

    auto directory = directory_of(given, *asked, get, working_directory);
    if (!directory) return std::move(directory).error();
    made.directory = *directory;

    if (!given.name.empty()) {
        if (auto good = check_run_name(given.name); !good) return std::move(good).error();
        made.name = given.name;
    } else {
        made.name = asked->name.empty() ? name_from_job(text_of(get, "SLURM_JOB_NAME")) : asked->name;
    }

    auto threads = copy_threads_of(get);
    if (!threads) return threads.error();
    made.copy_threads = *threads;
    if (given.interval_s == VARDE_INTERVAL_AUTO) made.interval_s = interval_auto_s;
    else if (given.interval_s >= 0) made.interval_s = static_cast<uint64_t>(given.interval_s);
    else made.interval_s = asked->interval_s.value_or(0);
    made.socket = given.socket.empty() ? text_of(get, "VARDE_SOCKET") : given.socket;
    made.job_id = text_of(get, "SLURM_JOB_ID");
    // sbatch sets this in the batch script, and srun hands it on; salloc does not.
    made.batch = !made.job_id.empty() && text_of(get, "ENVIRONMENT") == "BATCH";
    // With the job's number: a job that this one submits inherits the variable, and nobody watches that one's steps.
    made.in_place = made.batch && text_of(get, "SLURM_VARDE_RUN") == made.job_id;
    return made;
}

}  // namespace varde::client
