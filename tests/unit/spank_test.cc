// The plugin's decisions: what is taken, what the environment adds, what an inner job forgets.
#include "spank/hooks.h"

#include <criterion/criterion.h>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>

// Criterion runs each test in a process of its own: the environment and the session are its own, too.
static void setup() { varde_begin(); }
static void teardown() { varde_end(); }
TestSuite(spank, .init = setup, .fini = teardown);

static int index_of(const char* option) {
    const varde_option* each = nullptr;
    for (int i = 0; (each = varde_option_at(i)) != nullptr; i++)
        if (std::strcmp(each->name, option) == 0) return i;
    cr_assert_fail("no option %s", option);
    return -1;
}

static std::string value(const char* option) {
    const char* text = varde_value(index_of(option));
    return text == nullptr ? "(none)" : text;
}

static void take(const char* option, const char* text) {
    const char* message = varde_take(index_of(option), text);
    cr_assert_null(message, "%s", message);
}

static void settle(int defaults, const char* directory = nullptr) {
    const char* message = varde_settle(defaults, nullptr, directory);
    cr_assert_null(message, "%s", message);
}

Test(spank, has_nine_options_with_usage) {
    int count = 0;
    for (const varde_option* each = nullptr; (each = varde_option_at(count)) != nullptr; count++) {
        cr_assert(std::strncmp(each->name, "ckpt-", 5) == 0);
        cr_assert(each->usage[0] != '\0' && each->value[0] != '\0');
    }
    cr_assert_eq(count, 9);
    cr_assert_null(varde_option_at(-1));
}

Test(spank, a_job_without_options_has_nothing) {
    ::setenv("VARDE_DIR", "/p", 1);
    ::setenv("VARDE_KEEP", "nonsense that concerns no job without checkpoints", 1);
    settle(1);
    cr_assert_eq(varde_wanted(), 0);
    for (int i = 0; varde_option_at(i) != nullptr; i++) cr_assert_null(varde_value(i));
}

Test(spank, the_last_value_of_an_option_wins) {
    take("ckpt-interval", "10m");
    take("ckpt-interval", "20m");
    settle(1);
    cr_assert(value("ckpt-interval") == "20m");
    cr_assert_eq(varde_wanted(), 1);
}

Test(spank, variables_are_defaults_below_the_options) {
    ::setenv("VARDE_INTERVAL", "20m", 1);
    ::setenv("VARDE_KEEP", "5", 1);
    ::setenv("VARDE_NAME", "", 1);
    take("ckpt-keep", "7");
    settle(1);
    cr_assert(value("ckpt-interval") == "20m");
    cr_assert(value("ckpt-keep") == "7");
    cr_assert(value("ckpt-name") == "(none)");
    cr_assert_eq(varde_wanted(), 1);
}

Test(spank, off_beats_a_variable) {
    ::setenv("VARDE_INTERVAL", "20m", 1);
    take("ckpt-interval", "off");
    settle(1);
    cr_assert_eq(varde_wanted(), 0);
}

Test(spank, a_step_takes_no_defaults) {
    ::setenv("VARDE_INTERVAL", "20m", 1);
    settle(0);
    cr_assert_eq(varde_wanted(), 0);
}

Test(spank, a_wrong_value_is_refused_with_its_source) {
    const char* message = varde_take(index_of("ckpt-interval"), "20x");
    cr_assert_not_null(message);
    cr_assert_not_null(std::strstr(message, "--ckpt-interval=20x"));
    cr_assert_not_null(std::strstr(message, "--ckpt-interval=20m"));
    cr_assert_not_null(varde_take(index_of("ckpt-interval"), nullptr));
    cr_assert_not_null(varde_take(99, "x"));
    ::setenv("VARDE_INTERVAL", "soon", 1);
    message = varde_settle(1, nullptr, nullptr);
    cr_assert_not_null(message);
    cr_assert_not_null(std::strstr(message, "VARDE_INTERVAL"), "%s", message);
}

Test(spank, a_relative_directory_means_the_jobs) {
    take("ckpt-dir", "ckpt/%x");
    settle(1, "/home/anna%1");
    cr_assert(value("ckpt-dir") == "/home/anna%%1/ckpt/%x", "%s", value("ckpt-dir").c_str());
}

Test(spank, a_relative_directory_of_a_relative_working_directory) {
    cr_assert_eq(::chdir("/usr"), 0);
    take("ckpt-dir", "ckpt");
    settle(1, "lib");
    cr_assert(value("ckpt-dir") == "/usr/lib/ckpt", "%s", value("ckpt-dir").c_str());
}

Test(spank, an_absolute_directory_stays) {
    take("ckpt-dir", "/p/%u");
    settle(1, "/home");
    cr_assert(value("ckpt-dir") == "/p/%u");
}

Test(spank, the_site_names_a_directory_for_jobs_that_ask) {
    cr_assert_null(varde_settle(1, "/site/%u", nullptr));
    cr_assert(value("ckpt-dir") == "(none)", "a job without an interval is not touched");
    take("ckpt-interval", "20m");
    cr_assert_null(varde_settle(0, "/site/%u", nullptr));
    cr_assert(value("ckpt-dir") == "(none)", "a step has its job's");
    cr_assert_null(varde_settle(1, "/site/%u", nullptr));
    cr_assert(value("ckpt-dir") == "/site/%u");
    take("ckpt-dir", "/mine");
    cr_assert_null(varde_settle(1, "/site/%u", nullptr));
    cr_assert(value("ckpt-dir") == "/mine");
}

Test(spank, a_wrong_directory_of_the_site_is_told) {
    take("ckpt-interval", "20m");
    for (const char* bad : {"relative", "/p/%q", ""}) {
        const char* message = varde_settle(1, bad, nullptr);
        cr_assert_not_null(message, "'%s'", bad);
        cr_assert_not_null(std::strstr(message, "plugstack.conf"), "%s", message);
    }
}

static void set_inherited() {
    ::setenv("SLURM_SPANK__SLURM_SPANK_OPTION_varde_ckpt_interval", "20m", 1);
    ::setenv("SLURM_SPANK__SLURM_SPANK_OPTION_varde_ckpt_max_restarts", "2", 1);
    ::setenv("SLURM_VARDE_INTERVAL", "20m", 1);
    ::setenv("SLURM_SPANK_VARDE_INTERVAL", "20m", 1);
}

Test(spank, a_step_keeps_the_jobs_values_only) {
    set_inherited();
    varde_forget_inherited(0);
    cr_assert_null(std::getenv("SLURM_SPANK__SLURM_SPANK_OPTION_varde_ckpt_interval"));
    cr_assert_null(std::getenv("SLURM_SPANK__SLURM_SPANK_OPTION_varde_ckpt_max_restarts"));
    cr_assert_not_null(std::getenv("SLURM_VARDE_INTERVAL"));
}

Test(spank, a_nested_job_inherits_nothing) {
    set_inherited();
    varde_forget_inherited(1);
    cr_assert_null(std::getenv("SLURM_SPANK__SLURM_SPANK_OPTION_varde_ckpt_interval"));
    cr_assert_null(std::getenv("SLURM_VARDE_INTERVAL"));
    cr_assert_null(std::getenv("SLURM_SPANK_VARDE_INTERVAL"));
}

Test(spank, outside_sbatch_nothing_is_made_restartable) { cr_assert_null(varde_make_restartable()); }

Test(spank, calls_in_any_order_are_harmless) {
    varde_end();
    varde_end();
    cr_assert_eq(varde_wanted(), 0);
    cr_assert_null(varde_value(0));
    cr_assert_not_null(varde_take(0, "20m"));
    cr_assert_not_null(varde_settle(1, nullptr, nullptr));
    varde_begin();
    take("ckpt-interval", "20m");
    varde_begin();
    cr_assert_null(varde_value(0), "a second begin starts over");
}
