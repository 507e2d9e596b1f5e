// `varde config`: what is in force, and where it comes from.
#include "base/options.h"
#include "cli_support.h"
#include "config/keys.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace cli_test;
using store_test::temporary_directory;

namespace {

// A varde.yaml of a test, and an environment without a job.
struct site {
    explicit site(const std::string& text) : file(directory.path() + "/varde.yaml") {
        for (const char* prefix : {"VARDE_", "SLURM_VARDE_", "SPANK_VARDE_"})
            for (const option_rule& rule : option_rules()) ::unsetenv((std::string(prefix) + rule.variable).c_str());
        ::unsetenv("SLURM_JOB_ID");
        std::ofstream(file) << text;
        std::filesystem::permissions(file, std::filesystem::perms(0644));
    }
    nlohmann::json shown(const std::vector<std::string>& more = {}) const {
        std::vector<std::string> arguments{"config", "--file", file, "--json"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const outcome got = varde_run(arguments);
        cr_assert_eq(got.status, 0, "%s", got.err.c_str());
        auto value = nlohmann::json::parse(got.out, nullptr, false);
        cr_assert(not value.is_discarded(), "no JSON: %s", got.out.c_str());
        return value;
    }
    temporary_directory directory;
    std::string file;
};

nlohmann::json key_of(const nlohmann::json& shown, const std::string& name) {
    for (const auto& each : shown["keys"])
        if (each["key"] == name) return each;
    cr_assert_fail("there is no key '%s' in %s", name.c_str(), shown.dump().c_str());
    return {};
}

void expect_key(const nlohmann::json& shown, const std::string& name, const std::string& value, const std::string& from,
                const std::string& where) {
    const auto key = key_of(shown, name);
    cr_expect(key["value"] == value and key["from"] == from and key["where"] == where, "%s", key.dump().c_str());
}

}  // namespace

Test(cli_config, shows_each_key_with_its_line) {
    const site made("# ours\nagent:\n  memory: 1024M\n\n  silence_s: 30\n");
    const auto shown = made.shown();
    cr_expect_eq(shown["keys"].size(), config_keys().size());
    expect_key(shown, "agent.memory", "1G", "file", made.file + ":3");
    expect_key(shown, "agent.silence_s", "30", "file", made.file + ":5");
    expect_key(shown, "agent.chunk", "4M", "default", "");
    cr_expect(key_of(shown, "agent.memory")["default"] == "10%");
    cr_expect(key_of(shown, "agent.silence_s")["unit"] == "seconds");
}

Test(cli_config, a_table_says_the_same) {
    const site made("agent:\n  pulse_ms: 250\n");
    const outcome got = varde_run({"config", "--file", made.file});
    cr_expect_eq(got.status, 0);
    expect_contains(got.out, "KEY ");
    expect_contains(got.out, "file " + made.file + ":2\n");
    expect_contains(got.out, "failures.node_mtbf_h");
}

Test(cli_config, a_jobs_options_win_and_its_variables_over_them) {
    const site made("defaults:\n  keep: 9\n  max_restarts: 5\n");
    ::setenv("SPANK_VARDE_KEEP", "4", 1);
    ::setenv("SPANK_VARDE_MEMORY", "25%", 1);
    expect_key(made.shown(), "defaults.keep", "9", "file", made.file + ":2");
    auto shown = made.shown({"--job"});
    expect_key(shown, "defaults.keep", "4", "option", "SPANK_VARDE_KEEP");
    expect_key(shown, "agent.memory", "25%", "option", "SPANK_VARDE_MEMORY");
    expect_key(shown, "defaults.max_restarts", "5", "file", made.file + ":3");
    expect_key(shown, "--ckpt-interval", "off", "default", "");
    ::setenv("SLURM_VARDE_KEEP", "6", 1);
    ::setenv("SLURM_VARDE_INTERVAL", "20m", 1);
    ::setenv("SLURM_VARDE_NAME", "", 1);
    ::setenv("VARDE_MAX_RESTARTS", "1", 1);
    shown = made.shown({"--job"});
    expect_key(shown, "defaults.keep", "6", "option", "SLURM_VARDE_KEEP");
    expect_key(shown, "defaults.max_restarts", "1", "environment", "VARDE_MAX_RESTARTS");
    expect_key(shown, "--ckpt-interval", "20m", "option", "SLURM_VARDE_INTERVAL");
    expect_key(shown, "--ckpt-name", "the job's name", "default", "");
    ::setenv("VARDE_MEMORY", "2G", 1);
    expect_key(made.shown({"--job"}), "agent.memory", "2G", "environment", "VARDE_MEMORY");
}

Test(cli_config, the_prologs_arena_is_not_what_a_script_sets_later) {
    const site made("");
    const std::string run = made.directory.path() + "/run";
    ::setenv("SLURM_JOB_ID", "7", 1);
    ::setenv("VARDE_MEMORY", "2G", 1);
    ::setenv("SLURM_VARDE_MEMORY", "1G", 1);
    expect_key(made.shown({"--job", "--run-dir", run}), "agent.memory", "2G", "environment", "VARDE_MEMORY");
    std::filesystem::create_directories(run + "/7");
    std::ofstream(run + "/7/state.json") << "{}";
    expect_key(made.shown({"--job", "--run-dir", run}), "agent.memory", "1G", "option", "SLURM_VARDE_MEMORY");
}

Test(cli_config, what_is_wrong_is_refused_with_its_place) {
    const site made("agent:\n  chunk: 3M\n");
    const outcome got = varde_run({"config", "--file", made.file});
    cr_expect_eq(got.status, 1);
    expect_contains(got.err, made.file + ":2'");
    expect_contains(got.err, "agent.chunk is '3M'");
    cr_expect(got.out.empty());

    const site fine("");
    ::setenv("SLURM_VARDE_KEEP", "0", 1);
    const outcome job = varde_run({"config", "--file", fine.file, "--job"});
    cr_expect_eq(job.status, 1);
    expect_contains(job.err, "SLURM_VARDE_KEEP");

    std::filesystem::permissions(fine.file, std::filesystem::perms(0666));
    const outcome open = varde_run({"config", "--file", fine.file});
    cr_expect_eq(open.status, 1);
    expect_contains(open.err, "chmod go-w");
}

Test(cli_config, a_named_file_that_is_missing_is_an_error) {
    const site made("");
    const outcome got = varde_run({"config", "--file", made.directory.path() + "/none"});
    cr_expect_eq(got.status, 2);
    expect_contains(got.err, "no such file");
}
