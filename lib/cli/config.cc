// varde config: what is in force of varde.yaml and of a job's options, and where each value comes from.
#include "config/config.h"

#include "base/options.h"
#include "cli/json_text.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include "config/keys.h"
#include "pack/text.h"

#include <cstdlib>
#include <fmt/format.h>
#include <unistd.h>

namespace varde::cli {

namespace {

struct value_in_force {
    std::string key;
    std::string value;
    std::string standard;  // the default
    std::string unit;
    const char* from = "default";  // or "file", "environment" (of the training program), "option" (of the job)
    std::string where;             // "/etc/varde/varde.yaml:5", "VARDE_KEEP"; empty for a default
};

// In this order: what is nearer to the training program wins (spank/README.md).  SPANK_ is what prolog and epilog get.
struct job_source {
    const char* prefix;
    const char* from;
};
constexpr job_source job_sources[] = {
    {"VARDE_", "environment"}, {"SLURM_VARDE_", "option"}, {"SPANK_VARDE_", "option"}};

const char* variable(const char* name) { return std::getenv(name); }

// The prolog makes the arena before the batch script can set anything.
bool arena_is_the_prologs(const std::string& run_directory) {
    const char* job = variable("SLURM_JOB_ID");
    return job != nullptr && ::access((run_directory + "/" + job + "/state.json").c_str(), F_OK) == 0;
}

// Takes a job's option over what `target` says.  The error is of a wrong value.
result<void> take_option(value_in_force& target, const option_rule& rule, const std::string& run_directory) {
    for (const job_source& source : job_sources) {
        const bool too_late = std::string_view(source.from) == "environment" &&
                              std::string_view(rule.variable) == "MEMORY" && arena_is_the_prologs(run_directory);
        if (too_late) continue;
        const std::string name = std::string(source.prefix) + rule.variable;
        const char* text = variable(name.c_str());
        if (text == nullptr || *text == '\0') continue;
        options scratch;
        auto done = apply_option(scratch, rule, text);
        if (!done) return fail(code::invalid, done.error().context + " (it comes from the variable " + name + ")");
        target.value = text;
        target.from = source.from;
        target.where = name;
        return {};
    }
    return {};
}

std::vector<value_in_force> of_file(const config_file& file, const std::string& path) {
    std::vector<value_in_force> all;
    for (size_t index = 0; index < config_keys().size(); index++) {
        const config_key& key = config_keys()[index];
        value_in_force one{
            full_name(key), key.value.show(file.values), key.value.show(config{}), key.unit, "default", ""};
        if (file.lines[index] != 0) {
            one.from = "file";
            one.where = path + ":" + std::to_string(file.lines[index]);
        }
        all.push_back(std::move(one));
    }
    return all;
}

// Options that no key of the file stands for.
bool only_of_jobs(const option_rule& rule) {
    for (const config_key& key : config_keys())
        if (key.option != nullptr && std::string_view(key.option) == rule.variable) return false;
    return true;
}

std::string default_of(const option_rule& rule) {
    const std::string_view name = rule.variable;
    if (name == "INTERVAL") return "off";
    if (name == "DIR") return "./checkpoints";
    if (name == "NAME") return "the job's name";
    return "auto";  // RESTART
}

result<void> take_job(std::vector<value_in_force>& all, const std::string& run_directory) {
    for (size_t index = 0; index < config_keys().size(); index++) {
        for (const option_rule& rule : option_rules()) {
            const char* option = config_keys()[index].option;
            if (option == nullptr || std::string_view(option) != rule.variable) continue;
            auto done = take_option(all[index], rule, run_directory);
            if (!done) return done;
        }
    }
    for (const option_rule& rule : option_rules()) {
        if (!only_of_jobs(rule)) continue;
        value_in_force one{std::string("--") + rule.option, default_of(rule), default_of(rule), "", "default", ""};
        auto done = take_option(one, rule, run_directory);
        if (!done) return done;
        all.push_back(std::move(one));
    }
    return {};
}

void print_json(const std::vector<value_in_force>& all, const std::string& path, bool exists, console to) {
    auto keys = nlohmann::ordered_json::array();
    for (const value_in_force& one : all) {
        keys.push_back({{"key", one.key},
                        {"value", one.value},
                        {"unit", one.unit},
                        {"default", one.standard},
                        {"from", one.from},
                        {"where", one.where}});
    }
    fmt::print(to.out, "{}", json_text({{"file", path}, {"exists", exists}, {"keys", keys}}));
}

void print_table(const std::vector<value_in_force>& all, const std::string& path, bool exists, console to) {
    if (!exists) fmt::print(to.out, "{} is missing: all defaults hold\n\n", pack::escaped(path, 4096));
    table rows({{"KEY"}, {"VALUE"}, {"UNIT"}, {"DEFAULT"}, {"FROM"}});
    for (const value_in_force& one : all) {
        const std::string from = one.where.empty() ? one.from : std::string(one.from) + " " + one.where;
        rows.add({one.key, pack::escaped(one.value, 400), one.unit, one.standard, pack::escaped(from, 4096)});
    }
    fmt::print(to.out, "{}", rows.text());
}

}  // namespace

status show_config(const config_options& options, console to) {
    const std::string path = options.file.empty() ? config_path : options.file;
    const auto file = load_config_file(path);
    if (!file) {
        complain(to, file.error());
        return file.error().what == code::invalid ? status::damaged : status::failed;
    }
    // The default place may be empty; a file that is named is meant.
    if (!file->exists && !options.file.empty()) {
        complain(to, fail(code::not_found, "couldn't open '" + path + "': there is no such file"));
        return status::failed;
    }
    auto all = of_file(*file, path);
    if (options.job) {
        if (auto done = take_job(all, options.run_directory); !done) {
            complain(to, done.error());
            return status::damaged;
        }
    }
    if (options.json) print_json(all, path, file->exists, to);
    else print_table(all, path, file->exists, to);
    return status::good;
}

}  // namespace varde::cli
