// The table of the --ckpt-* options, and the check of each value.
#include "base/options.h"

#include "base/limits.h"
#include "base/units.h"

#include <array>

namespace varde {

namespace {

constexpr uint64_t memory_bytes_min = 1ULL
                                      << 20;  // below it, a forgotten unit ("4096" meant as MiB) is the likely cause
constexpr uint32_t memory_percent_max = 90;   // the rest is for the kernel and the job itself
constexpr size_t value_bytes_max = limits::path_bytes_max - 1;

bool has_control_character(std::string_view text) noexcept {
    for (const char c : text)
        if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) return true;
    return false;
}

result<void> apply_interval(options& target, std::string_view text) {
    if (text == "off") {
        target.interval_s = 0;
        return {};
    }
    if (text == "auto") {
        target.interval_s = interval_auto_s;
        return {};
    }
    auto seconds = parse_duration_s(text);
    if (!seconds) return std::move(seconds).error();
    target.interval_s = *seconds;
    return {};
}

result<void> apply_directory(options& target, std::string_view text) {
    // Any values do: only the pattern is judged here.
    auto expanded = expand_directory(text, {"user", "1", "name"});
    if (!expanded) return std::move(expanded).error();
    target.directory = text;
    return {};
}

result<void> apply_name(options& target, std::string_view text) {
    auto good = check_run_name(text);
    if (!good) return good;
    target.name = text;
    return {};
}

result<void> apply_keep(options& target, std::string_view text) {
    auto count = parse_number(text, limits::count_option_max);
    if (!count) return std::move(count).error();
    if (*count == 0) return fail(code::invalid, "at least 1 checkpoint must stay");
    target.keep = static_cast<uint32_t>(*count);
    return {};
}

result<void> apply_memory(options& target, std::string_view text) {
    if (text.ends_with('%')) {
        auto percent = parse_number(text.substr(0, text.size() - 1));
        if (!percent) return std::move(percent).error();
        if (*percent < 1 || *percent > memory_percent_max)
            return fail(code::invalid, "a share of the node's memory is 1% to 90%");
        target.memory_percent = static_cast<uint32_t>(*percent);
        target.memory_bytes.reset();
        return {};
    }
    auto bytes = parse_size_bytes(text);
    if (!bytes) return std::move(bytes).error();
    if (*bytes < memory_bytes_min)
        return fail(code::invalid, "it is less than 1 MiB (a number without a unit is bytes)");
    if (*bytes > limits::range_bytes_max)
        return fail(code::invalid, "it is more than " + format_bytes(limits::range_bytes_max));
    target.memory_bytes = *bytes;
    target.memory_percent.reset();
    return {};
}

result<void> apply_restart(options& target, std::string_view text) {
    if (text == "auto" || text == "never") {
        target.restart = text == "auto" ? restart_policy::automatic : restart_policy::never;
        target.restart_step = 0;
        return {};
    }
    auto step = parse_number(text);
    if (!step || *step == 0) return fail(code::invalid, "it is neither 'auto' nor 'never' nor the number of a step");
    target.restart = restart_policy::step;
    target.restart_step = *step;
    return {};
}

result<void> apply_max_restarts(options& target, std::string_view text) {
    auto count = parse_number(text, limits::count_option_max);
    if (!count) return std::move(count).error();
    target.max_restarts = static_cast<uint32_t>(*count);
    return {};
}

result<void> apply_final_exits(options& target, std::string_view text) {
    auto codes = parse_exit_codes(text);
    if (!codes) return std::move(codes).error();
    target.final_exits = *codes;
    return {};
}

result<void> apply_hang_timeout(options& target, std::string_view text) {
    if (text == "off") {
        target.hang_timeout_s = 0;
        return {};
    }
    auto seconds = parse_duration_s(text);
    if (!seconds) return std::move(seconds).error();
    target.hang_timeout_s = *seconds;
    return {};
}

constexpr std::array<option_rule, 9> rules{{
    {"ckpt-interval", "INTERVAL", "TIME",
     "checkpoint every TIME (20 = minutes, 90s, 1h30m, HH:MM:SS); auto: computed; off: none", "20m", apply_interval},
    {"ckpt-dir", "DIR", "PATH", "directory of the checkpoints; %u user, %j job id, %x job name", "/scratch/%u/ckpt",
     apply_directory},
    {"ckpt-name", "NAME", "NAME", "name of the run; jobs of the same name continue one another", "llama-7b",
     apply_name},
    {"ckpt-keep", "KEEP", "N", "number of complete checkpoints that stay", "3", apply_keep},
    {"ckpt-memory", "MEMORY", "SIZE|%", "memory per node for checkpoints on their way to storage", "64G", apply_memory},
    {"ckpt-restart", "RESTART", "auto|never|STEP", "where to start: newest complete checkpoint, none, or this step",
     "auto", apply_restart},
    {"ckpt-max-restarts", "MAX_RESTARTS", "N", "how often the job may be requeued after failures", "10",
     apply_max_restarts},
    {"ckpt-final-exits", "FINAL_EXITS", "LIST", "exit codes of the batch script after which it is not started again",
     "2,64-78", apply_final_exits},
    {"ckpt-hang-timeout", "HANG_TIMEOUT", "TIME",
     "requeue a job of which no rank has made a step for TIME (30m, 90s, HH:MM:SS); off: never", "30m",
     apply_hang_timeout},
}};

// One value of a pattern as one name of a path.
result<std::string> path_name(char letter, const std::string& value) {
    if (value.empty() || value == "." || value == "..") {
        const std::string shown = value.empty() ? "empty" : "'" + value + "'";
        return fail(code::invalid, std::string("the value of %") + letter + " is " + shown);
    }
    std::string name = value;
    for (char& c : name)
        if (c == '/') c = '_';
    return name;
}

}  // namespace

std::span<const option_rule> option_rules() noexcept { return rules; }

result<void> apply_option(options& target, const option_rule& rule, std::string_view text) {
    auto applied = [&]() -> result<void> {
        if (text.empty()) return fail(code::invalid, "the value is empty");
        if (text.size() > value_bytes_max) return fail(code::invalid, "the value is longer than 4095 bytes");
        if (has_control_character(text)) return fail(code::invalid, "the value contains a control character");
        return rule.apply(target, text);
    }();
    if (applied) return {};
    std::string message = std::string("couldn't use '--") + rule.option + "=" + printable(text);
    message += "': " + applied.error().context;
    message += std::string("; write for example --") + rule.option + "=" + rule.example;
    return fail(code::invalid, std::move(message));
}

result<options> options_from_environment(const char* prefix, environment get) {
    options found;
    for (const option_rule& rule : rules) {
        const std::string variable = std::string(prefix) + rule.variable;
        const char* text = get(variable.c_str());
        if (text == nullptr || *text == '\0') continue;
        auto applied = apply_option(found, rule, text);
        if (!applied) return fail(code::invalid, applied.error().context + " (it came from " + variable + ")");
    }
    return found;
}

result<std::string> expand_directory(std::string_view pattern, const pattern_values& values) {
    std::string path;
    for (size_t i = 0; i < pattern.size(); i++) {
        if (pattern[i] != '%') {
            path += pattern[i];
            continue;
        }
        const char letter = ++i < pattern.size() ? pattern[i] : '\0';
        if (letter == '%') {
            path += '%';
            continue;
        }
        const std::string* value = letter == 'u'   ? &values.user
                                   : letter == 'j' ? &values.job_id
                                   : letter == 'x' ? &values.job_name
                                                   : nullptr;
        if (value == nullptr) {
            const std::string shown = letter == '\0' ? "%" : "%" + printable(std::string_view(&letter, 1));
            return fail(code::invalid, "the pattern '" + shown + "' is unknown (there are %u, %j, %x and %%)");
        }
        auto name = path_name(letter, *value);
        if (!name) return name;
        path += *name;
    }
    if (path.empty()) return fail(code::invalid, "the directory is empty");
    if (path.size() > value_bytes_max) return fail(code::invalid, "the directory is longer than 4095 bytes");
    return path;
}

result<void> check_run_name(std::string_view name) {
    if (name.empty()) return fail(code::invalid, "the name is empty");
    if (name == "." || name == "..") return fail(code::invalid, "'.' and '..' are no names");
    if (name.size() > limits::run_name_bytes_max)
        return fail(code::invalid, "the name is longer than " + std::to_string(limits::run_name_bytes_max) + " bytes");
    for (const char c : name) {
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && c != '.' && c != '_' && c != '-')
            return fail(code::invalid, "a name has letters, digits, '.', '_' and '-' only");
    }
    return {};
}

}  // namespace varde
