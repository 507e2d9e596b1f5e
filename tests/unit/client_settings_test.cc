// Options over VARDE_... over SLURM_VARDE_... over defaults.
#include "client/settings.h"
#include "varde.h"

#include <criterion/criterion.h>
#include <map>
#include <string>

using namespace varde;
using namespace varde::client;

namespace {

std::map<std::string, std::string> table;

const char* get(const char* name) {
    const auto found = table.find(name);
    return found == table.end() ? nullptr : found->second.c_str();
}

result<settings> read(std::map<std::string, std::string> values, const given_options& given = {},
                      const char* cwd = "/home/u") {
    table = std::move(values);
    return read_settings(given, get, {"host", {2, 1}, {1, 1}}, cwd);
}

void refused(const result<settings>& found, const char* part) {
    cr_assert(!found.has_value() && found.error().what == code::invalid);
    cr_assert(found.error().context.find(part) != std::string::npos, "%s", found.error().context.c_str());
}

}  // namespace

Test(client_settings, defaults) {
    const auto found = read({});
    cr_assert(found.has_value());
    cr_assert(found->directory == "/home/u/checkpoints" && found->name == "run" && found->interval_s == 0 &&
              !found->batch);
    cr_assert(found->socket.empty() && found->keep.empty() && found->restart.empty() && found->copy_threads == 0);
}

Test(client_settings, what_sbatch_set_reaches_the_run) {
    const auto found = read({{"SLURM_VARDE_INTERVAL", "20m"},
                             {"SLURM_VARDE_DIR", "/s/%u/%x-%j"},
                             {"SLURM_VARDE_NAME", "big"},
                             {"SLURM_VARDE_KEEP", "5"},
                             {"SLURM_VARDE_RESTART", "never"},
                             {"SLURM_VARDE_MAX_RESTARTS", "7"},
                             {"SLURM_VARDE_HANG_TIMEOUT", "30m"},
                             {"SLURM_JOB_USER", "ada"},
                             {"SLURM_JOB_ID", "9"},
                             {"SLURM_JOB_NAME", "t"},
                             {"ENVIRONMENT", "BATCH"}});
    cr_assert(found.has_value(), "%s", found ? "" : found.error().context.c_str());
    cr_assert(found->interval_s == 1200 && found->directory == "/s/ada/t-9" && found->name == "big" && found->batch);
    cr_assert(found->keep == "5" && found->restart == "never" && found->max_restarts == "7" && found->job_id == "9");
    cr_assert(found->hang_timeout == "30m");
}

Test(client_settings, nearer_wins) {
    const std::map<std::string, std::string> far{{"SLURM_VARDE_INTERVAL", "20m"}, {"SLURM_VARDE_DIR", "/far"}};
    auto both = far;
    both["VARDE_INTERVAL"] = "30s";
    both["VARDE_DIR"] = "/near";
    auto found = read(both);
    cr_assert(found->interval_s == 30 && found->directory == "/near");
    given_options given;
    given.interval_s = VARDE_INTERVAL_AUTO;
    cr_assert(read(both, given)->interval_s == interval_auto_s);
    given.interval_s = 0;
    given.directory = "sub/%j";
    given.name = "mine";
    given.socket = "/x.sock";
    both["VARDE_SOCKET"] = "/y.sock";
    found = read(both, given);
    cr_assert(found->interval_s == 0 && found->directory == "/home/u/sub/%j" && found->name == "mine" &&
              found->socket == "/x.sock");
    cr_assert(read(both)->socket == "/y.sock");
}

Test(client_settings, a_jobs_name_becomes_a_runs_name) {
    cr_assert(read({{"SLURM_JOB_NAME", "my job/7"}})->name == "my_job_7");
    cr_assert(read({{"SLURM_JOB_NAME", ".."}})->name == "run");
    cr_assert(read({{"SLURM_JOB_NAME", std::string(300, 'x')}})->name.size() == 128);
}

Test(client_settings, wrong_values_are_named_with_their_variable) {
    refused(read({{"VARDE_INTERVAL", "soon"}}), "VARDE_INTERVAL");
    refused(read({{"SLURM_VARDE_KEEP", "0"}}), "SLURM_VARDE_KEEP");
    refused(read({{"VARDE_COPY_THREADS", "many"}}), "VARDE_COPY_THREADS");
    refused(read({{"VARDE_COPY_THREADS", "0"}}), "VARDE_COPY_THREADS");
    refused(read({{"VARDE_DIR", "/s/%j"}}), "%j");
    refused(read({}, {}, ""), "absolute path");
    given_options given;
    given.directory = std::string(5000, 'd');
    refused(read({}, given), "bytes");
    given = {};
    given.name = "..";
    refused(read({}, given), "");
}

Test(client_settings, a_name_for_the_start_may_be_given) {
    cr_assert(read({{"VARDE_LAUNCH", "third"}})->where.launch == "third");
    given_options given;
    given.launch = "fourth";
    cr_assert(read({{"VARDE_LAUNCH", "third"}}, given)->where.launch == "fourth");
}

Test(client_settings, salloc_is_no_batch_job) { cr_assert(!read({{"SLURM_JOB_ID", "9"}})->batch); }

Test(client_settings, varde_run_watches_the_steps_of_its_own_job_only) {
    cr_assert(read({{"SLURM_JOB_ID", "9"}, {"ENVIRONMENT", "BATCH"}, {"SLURM_VARDE_RUN", "9"}})->in_place);
    cr_assert(!read({{"SLURM_JOB_ID", "10"}, {"ENVIRONMENT", "BATCH"}, {"SLURM_VARDE_RUN", "9"}})->in_place);
    cr_assert(!read({{"SLURM_JOB_ID", "9"}, {"SLURM_VARDE_RUN", "9"}})->in_place, "nobody can requeue it");
    cr_assert(!read({{"SLURM_JOB_ID", "9"}, {"ENVIRONMENT", "BATCH"}})->in_place);
}
