// The --ckpt-* options: right values, wrong values with a message that helps, patterns of directories.
#include "base/limits.h"
#include "base/options.h"

#include <criterion/criterion.h>
#include <cstring>
#include <map>

using namespace varde;

static const option_rule& rule(const char* option) {
    for (const option_rule& each : option_rules())
        if (std::strcmp(each.option, option) == 0) return each;
    cr_assert_fail("no rule '%s'", option);
    return option_rules()[0];
}

static options applied(const char* option, std::string_view text) {
    options target;
    auto done = apply_option(target, rule(option), text);
    cr_assert(done.has_value(), "%s", done.has_value() ? "" : done.error().context.c_str());
    return target;
}

Test(options, takes_right_values) {
    cr_assert_eq(*applied("ckpt-interval", "20").interval_s, 1200);
    cr_assert(applied("ckpt-interval", "90s").wanted());
    cr_assert(!applied("ckpt-interval", "off").wanted());
    cr_assert_eq(*applied("ckpt-interval", "off").interval_s, 0);
    cr_assert_eq(*applied("ckpt-interval", "auto").interval_s, interval_auto_s);
    cr_assert(applied("ckpt-interval", "auto").wanted());
    cr_assert(applied("ckpt-dir", "/p/%u/%x.%j/100%%").directory == "/p/%u/%x.%j/100%%");
    cr_assert(applied("ckpt-name", "run-1_a.b").name == "run-1_a.b");
    cr_assert_eq(*applied("ckpt-keep", "3").keep, 3);
    cr_assert_eq(*applied("ckpt-memory", "64G").memory_bytes, 64ULL << 30);
    cr_assert_eq(*applied("ckpt-memory", "25%").memory_percent, 25);
    cr_assert_eq(applied("ckpt-restart", "auto").restart, restart_policy::automatic);
    cr_assert_eq(applied("ckpt-restart", "never").restart, restart_policy::never);
    cr_assert_eq(applied("ckpt-restart", "1200").restart, restart_policy::step);
    cr_assert_eq(applied("ckpt-restart", "1200").restart_step, 1200);
    cr_assert_eq(*applied("ckpt-max-restarts", "0").max_restarts, 0);
    for (const char* text : {"none", "1", "2,64-78", "1-255", "3-4,7,9-11"})
        cr_assert_eq(format_exit_codes(*applied("ckpt-final-exits", text).final_exits), text);
    cr_assert_eq(format_exit_codes(*applied("ckpt-final-exits", "4,3,1-2,2").final_exits), "1-4");
    cr_assert_eq(*applied("ckpt-hang-timeout", "30m").hang_timeout_s, 1800);
    cr_assert_eq(*applied("ckpt-hang-timeout", "off").hang_timeout_s, 0);
}

Test(options, the_last_form_of_memory_wins) {
    options target;
    cr_assert(apply_option(target, rule("ckpt-memory"), "4G").has_value());
    cr_assert(apply_option(target, rule("ckpt-memory"), "10%").has_value());
    cr_assert(!target.memory_bytes.has_value() && *target.memory_percent == 10);
    cr_assert(apply_option(target, rule("ckpt-memory"), "4G").has_value());
    cr_assert(!target.memory_percent.has_value() && target.memory_bytes.has_value());
}

Test(options, every_example_is_right) {
    for (const option_rule& each : option_rules()) {
        options target;
        cr_assert(apply_option(target, each, each.example).has_value(), "%s", each.option);
    }
}

Test(options, a_refusal_names_option_value_reason_and_example) {
    const struct {
        const char* option;
        const char* value;
        const char* reason;
    } bad[] = {
        {"ckpt-interval", "", "empty"},
        {"ckpt-interval", "20x", "not a unit of time"},
        {"ckpt-interval", "0", "shorter than 1 second"},
        {"ckpt-interval", "400d", "longer than 365 days"},
        {"ckpt-interval", "Off", "digit"},
        {"ckpt-interval", "automatic", "digit"},
        {"ckpt-dir", "", "empty"},
        {"ckpt-dir", "/p/%q", "'%q' is unknown"},
        {"ckpt-dir", "/p/%", "'%' is unknown"},
        {"ckpt-dir", "/p\n/x", "control character"},
        {"ckpt-name", "a/b", "letters, digits"},
        {"ckpt-name", "..", "no names"},
        {"ckpt-name", "a b", "letters, digits"},
        {"ckpt-name", "\xc3\xa9", "letters, digits"},
        {"ckpt-keep", "0", "at least 1"},
        {"ckpt-keep", "-1", "digit"},
        {"ckpt-keep", "1000001", "larger than"},
        {"ckpt-keep", "99999999999999999999", "too large"},
        {"ckpt-memory", "4096", "less than 1 MiB"},
        {"ckpt-memory", "0%", "1% to 90%"},
        {"ckpt-memory", "91%", "1% to 90%"},
        {"ckpt-memory", "%", "empty"},
        {"ckpt-memory", "50G%", "not a digit"},
        {"ckpt-memory", "4X", "not a unit"},
        {"ckpt-memory", "17T", "more than 16 TiB"},
        {"ckpt-restart", "0", "neither"},
        {"ckpt-restart", "newest", "neither"},
        {"ckpt-max-restarts", "many", "digit"},
        {"ckpt-max-restarts", "", "empty"},
        {"ckpt-final-exits", "0", "success"},
        {"ckpt-final-exits", "256", "255"},
        {"ckpt-final-exits", "7-3", "ends before"},
        {"ckpt-final-exits", "3,", "missing"},
        {"ckpt-final-exits", "3-", "empty"},
        {"ckpt-final-exits", "-3", "empty"},
        {"ckpt-final-exits", "3,,4", "empty"},
        {"ckpt-final-exits", "1-2-3", "digit"},
        {"ckpt-hang-timeout", "never", "digit"},
        {"ckpt-hang-timeout", "0", "shorter than 1 second"},
    };
    for (const auto& each : bad) {
        options target;
        auto done = apply_option(target, rule(each.option), each.value);
        cr_assert(!done.has_value(), "%s=%s was taken", each.option, each.value);
        const std::string& text = done.error().context;
        const std::string option = std::string("--") + each.option + "=";
        cr_assert(text.find("'" + option) != std::string::npos, "%s", text.c_str());
        if (std::strpbrk(each.value, "\n\xc3") == nullptr)
            cr_assert(text.find(option + each.value + "'") != std::string::npos, "%s", text.c_str());
        cr_assert(text.find(each.reason) != std::string::npos, "'%s' lacks '%s'", text.c_str(), each.reason);
        cr_assert(text.find("for example " + option + rule(each.option).example) != std::string::npos, "%s",
                  text.c_str());
        cr_assert_eq(text.find('\n'), std::string::npos);
    }
}

Test(options, a_refusal_leaves_the_target_alone) {
    options target = applied("ckpt-interval", "20m");
    cr_assert(!apply_option(target, rule("ckpt-interval"), "x").has_value());
    cr_assert_eq(*target.interval_s, 1200);
}

Test(options, a_huge_value_gives_a_short_message) {
    options target;
    auto done = apply_option(target, rule("ckpt-dir"), std::string(100000, 'x'));
    cr_assert(!done.has_value());
    cr_assert_lt(done.error().context.size(), 400);
}

static const std::map<std::string, const char*>* table;
static const char* look_up(const char* name) {
    const auto found = table->find(name);
    return found == table->end() ? nullptr : found->second;
}

Test(environment, reads_every_variable) {
    const std::map<std::string, const char*> values{
        {"SPANK_VARDE_INTERVAL", "20m"},   {"SPANK_VARDE_DIR", "/p"},         {"SPANK_VARDE_NAME", "n"},
        {"SPANK_VARDE_KEEP", "2"},         {"SPANK_VARDE_MEMORY", "1G"},      {"SPANK_VARDE_RESTART", "never"},
        {"SPANK_VARDE_MAX_RESTARTS", "7"}, {"SPANK_VARDE_HANG_TIMEOUT", "1h"}};
    table = &values;
    auto found = options_from_environment("SPANK_VARDE_", look_up);
    cr_assert(found.has_value());
    cr_assert_eq(*found->interval_s, 1200);
    cr_assert(found->directory == "/p");
    cr_assert(found->name == "n");
    cr_assert_eq(*found->keep, 2);
    cr_assert_eq(*found->memory_bytes, 1ULL << 30);
    cr_assert_eq(found->restart, restart_policy::never);
    cr_assert_eq(*found->max_restarts, 7);
    cr_assert_eq(*found->hang_timeout_s, 3600);
}

Test(environment, unset_and_empty_are_the_same) {
    const std::map<std::string, const char*> values{{"SLURM_VARDE_INTERVAL", ""}};
    table = &values;
    auto found = options_from_environment("SLURM_VARDE_", look_up);
    cr_assert(found.has_value() && !found->wanted() && !found->interval_s.has_value());
}

Test(environment, an_error_names_the_variable) {
    const std::map<std::string, const char*> values{{"VARDE_KEEP", "none"}};
    table = &values;
    auto found = options_from_environment("VARDE_", look_up);
    cr_assert(!found.has_value());
    cr_assert(found.error().context.find("VARDE_KEEP") != std::string::npos, "%s", found.error().context.c_str());
}

Test(directory, expands_its_patterns) {
    const pattern_values values{"anna", "17", "train/x"};
    cr_assert(*expand_directory("/p/%u/%j-%x/50%%", values) == "/p/anna/17-train_x/50%");
    cr_assert(*expand_directory("/plain", values) == "/plain");
}

Test(directory, refuses_values_that_are_no_names) {
    for (const char* name : {"", ".", ".."}) {
        auto path = expand_directory("/p/%x", {"anna", "17", name});
        cr_assert(!path.has_value());
        cr_assert(path.error().context.find("%x") != std::string::npos);
    }
    cr_assert(expand_directory("/p/%j", {"", "17", ""}).has_value(), "values that are not used may be empty");
    cr_assert(!expand_directory("", {"a", "1", "n"}).has_value());
    cr_assert(!expand_directory("/%x", {"a", "1", std::string(5000, 'n')}).has_value());
}

Test(run_name, is_bounded) {
    cr_assert(check_run_name(std::string(limits::run_name_bytes_max, 'a')).has_value());
    cr_assert(!check_run_name(std::string(limits::run_name_bytes_max + 1, 'a')).has_value());
    cr_assert(!check_run_name(std::string_view("a\0b", 3)).has_value());
}
