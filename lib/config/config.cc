// The table of varde.yaml's keys and the walk over the file.  yaml-cpp reports by exceptions: they end here.
#include "config/config.h"

#include "base/limits.h"
#include "base/options.h"
#include "base/units.h"
#include "config/trusted_file.h"

#include <fcntl.h>
#include <new>
#include <vector>
#include <yaml-cpp/yaml.h>

namespace varde {

namespace {

constexpr uint64_t write_bytes_per_s_min = 1 << 20;
constexpr size_t file_bytes_max = 64 << 10;

struct key_rule {
    const char* section;
    const char* key;
    const char* example;
    result<void> (*apply)(config& target, std::string_view text);
};

// A whole number between two bounds.
template <auto member, uint32_t least, uint32_t most>
result<void> apply_number(config& target, std::string_view text) {
    auto value = parse_number(text, most);
    if (!value) return std::move(value).error();
    if (*value < least) return fail(code::invalid, "it is smaller than " + std::to_string(least));
    target.*member = static_cast<uint32_t>(*value);
    return {};
}

const option_rule& option_of(std::string_view variable) {
    for (const option_rule& rule : option_rules())
        if (variable == rule.variable) return rule;
    return option_rules().front();  // not reached: the names below are literals, and a test uses each
}

// The rules of --ckpt-memory hold for the site's default too.
result<void> apply_memory(config& target, std::string_view text) {
    options parsed;
    auto done = option_of("MEMORY").apply(parsed, text);
    if (!done) return done;
    target.memory_bytes = parsed.memory_bytes;
    target.memory_percent = parsed.memory_percent;
    return {};
}

result<void> apply_chunk(config& target, std::string_view text) {
    auto bytes = parse_size_bytes(text);
    if (!bytes) return std::move(bytes).error();
    const bool power_of_two = *bytes != 0 && (*bytes & (*bytes - 1)) == 0;
    if (!power_of_two || *bytes < limits::chunk_bytes_min || *bytes > limits::chunk_bytes_max)
        return fail(code::invalid, "a chunk is a power of two from 4K to 64M");
    target.chunk_bytes = *bytes;
    return {};
}

result<void> apply_write_limit(config& target, std::string_view text) {
    if (text == "off") {
        target.write_bytes_per_s = 0;
        return {};
    }
    auto bytes = parse_size_bytes(text);
    if (!bytes) return std::move(bytes).error();
    if (*bytes < write_bytes_per_s_min) return fail(code::invalid, "it is less than 1M, or 'off' for no limit");
    target.write_bytes_per_s = *bytes;
    return {};
}

result<void> apply_bin_dir(config& target, std::string_view text) {
    if (!text.empty() && text.front() != '/') return fail(code::invalid, "it is not an absolute path");
    if (text.size() >= limits::path_bytes_max) return fail(code::invalid, "it is too long");
    target.bin_dir = text;
    return {};
}

constexpr key_rule rules[] = {
    {"agent", "memory", "10%", apply_memory},
    {"agent", "chunk", "4M", apply_chunk},
    {"agent", "write_limit", "2G", apply_write_limit},
    {"agent", "pulse_ms", "1000", apply_number<&config::pulse_ms, 10, 60'000>},
    {"agent", "silence_s", "30", apply_number<&config::silence_s, 1, 3600>},
    {"failures", "node_mtbf_h", "10000", apply_number<&config::node_mtbf_h, 1, 10'000'000>},
    {"defaults", "keep", "3", apply_number<&config::keep, 1, limits::count_option_max>},
    {"defaults", "max_restarts", "100", apply_number<&config::max_restarts, 0, limits::count_option_max>},
    {"prolog", "ready_ms", "900", apply_number<&config::ready_ms, 50, 60'000>},
    {"epilog", "drain_s", "30", apply_number<&config::drain_s, 0, 3600>},
    {"controller", "free_s", "180", apply_number<&config::free_s, 10, 3600>},
    {"slurm", "bin_dir", "/usr/bin", apply_bin_dir},
};

failure wrong(const std::string& path, const YAML::Mark& where, const std::string& what) {
    const std::string line = where.is_null() ? "" : ":" + std::to_string(where.line + 1);
    return fail(code::invalid, "couldn't use '" + path + line + "': " + what);
}

std::string known_names(const char* section) {
    std::string names;
    std::string_view last;
    for (const key_rule& rule : rules) {
        const std::string_view name = section == nullptr ? rule.section : rule.key;
        if ((section != nullptr && std::string_view(section) != rule.section) || name == last) continue;
        names += (names.empty() ? "" : ", ") + std::string(name);
        last = name;
    }
    return names;
}

result<void> apply_key(config& target, const char* section, const std::string& key, const YAML::Node& value,
                       const std::string& path, const YAML::Mark& where) {
    for (const key_rule& rule : rules) {
        if (std::string_view(rule.section) != section || key != rule.key) continue;
        const std::string name = std::string(section) + "." + rule.key;
        const std::string example = "; write for example '" + std::string(rule.key) + ": " + rule.example + "'";
        if (!value.IsScalar() && !value.IsNull())
            return wrong(path, where, name + " has more than one value" + example);
        const std::string text = value.IsScalar() ? value.Scalar() : "";
        auto done = rule.apply(target, text);
        if (done) return {};
        return wrong(path, where, name + " is '" + printable(text) + "': " + done.error().context + example);
    }
    return wrong(path, where,
                 std::string(section) + " has no key '" + printable(key) + "'; its keys are " + known_names(section));
}

// A name that comes twice is a mistake that would otherwise be settled by the order of the lines.
result<std::string> new_name(const YAML::Node& name, std::vector<std::string>& seen, const std::string& path) {
    if (!name.IsScalar()) return wrong(path, name.Mark(), "a key must be a single word");
    for (const std::string& earlier : seen)
        if (earlier == name.Scalar()) return wrong(path, name.Mark(), "'" + printable(earlier) + "' comes twice");
    seen.push_back(name.Scalar());
    return name.Scalar();
}

result<void> apply_section(config& target, const char* section, const YAML::Node& keys, const std::string& path) {
    if (keys.IsNull()) return {};  // all keys of the section are commented out
    if (!keys.IsMap()) return wrong(path, keys.Mark(), std::string(section) + " must hold 'key: value' lines");
    std::vector<std::string> seen;
    for (const auto& pair : keys) {
        auto key = new_name(pair.first, seen, path);
        if (!key) return std::move(key).error();
        auto done = apply_key(target, section, *key, pair.second, path, pair.first.Mark());
        if (!done) return done;
    }
    return {};
}

result<config> walk(const YAML::Node& root, const std::string& path) {
    config target;
    if (root.IsNull()) return target;  // nothing but comments
    if (!root.IsMap()) return wrong(path, root.Mark(), "it must hold sections such as 'agent:'");
    std::vector<std::string> seen;
    for (const auto& pair : root) {
        auto name = new_name(pair.first, seen, path);
        if (!name) return std::move(name).error();
        const char* section = nullptr;
        for (const key_rule& rule : rules)
            if (*name == rule.section) section = rule.section;
        if (section == nullptr)
            return wrong(path, pair.first.Mark(),
                         "there is no section '" + printable(*name) + "'; the sections are " + known_names(nullptr));
        auto done = apply_section(target, section, pair.second, path);
        if (!done) return std::move(done).error();
    }
    return target;
}

}  // namespace

uint64_t arena_bytes(const config& site, std::optional<uint64_t> job_bytes, std::optional<uint32_t> job_percent,
                     uint64_t node_bytes) noexcept {
    if (job_bytes) return *job_bytes;
    if (job_percent) return node_bytes / 100 * *job_percent;
    if (site.memory_bytes) return *site.memory_bytes;
    return node_bytes / 100 * site.memory_percent.value_or(0);
}

result<config> parse_config(std::string_view text, const std::string& path) {
    try {
        const auto documents = YAML::LoadAll(std::string(text));
        if (documents.size() > 1)
            return fail(code::invalid, "couldn't use '" + path + "': it holds more than one document");
        return documents.empty() ? result<config>(config{}) : walk(documents.front(), path);
    } catch (const YAML::Exception& error) {
        return wrong(path, error.mark, printable(error.msg));
    } catch (const std::bad_alloc&) { return fail(code::no_memory, "couldn't read '" + path + "': out of memory"); }
}

result<config> load_config(const std::string& path) {
    auto text = read_trusted_file(AT_FDCWD, path, path, file_bytes_max);
    if (!text) return text.error().what == code::not_found ? result<config>(config{}) : std::move(text).error();
    return parse_config(*text, path);
}

}  // namespace varde
