// The walk over varde.yaml.  yaml-cpp reports by exceptions: they end here.
#include "config/config.h"

#include "base/units.h"
#include "config/keys.h"
#include "config/trusted_file.h"

#include <algorithm>
#include <fcntl.h>
#include <new>
#include <vector>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

namespace varde {

namespace {

constexpr size_t file_bytes_max = 64 << 10;
constexpr int brackets_max = 8;

failure wrong(const std::string& path, const YAML::Mark& where, const std::string& what) {
    const std::string line = where.is_null() ? "" : ":" + std::to_string(where.line + 1);
    return fail(code::invalid, "couldn't use '" + path + line + "': " + what);
}

std::string section_names() {
    std::string names;
    for (const config_section& section : config_sections())
        names += (names.empty() ? "" : ", ") + std::string(section.name);
    return names;
}

std::string key_names(const char* section) {
    std::string names;
    for (const config_key& key : config_keys())
        if (std::string_view(section) == key.section) names += (names.empty() ? "" : ", ") + std::string(key.name);
    return names;
}

// The key of a section, as an index of the table.
std::optional<size_t> find_key(const char* section, const std::string& name) {
    for (size_t index = 0; index < config_keys().size(); index++) {
        const config_key& key = config_keys()[index];
        if (std::string_view(key.section) == section && name == key.name) return index;
    }
    return std::nullopt;
}

result<void> apply_key(config_file& target, const char* section, const std::string& name, const YAML::Node& value,
                       const std::string& path, const YAML::Mark& where) {
    const auto index = find_key(section, name);
    if (!index)
        return wrong(
            path, where,
            std::string(section) + " has no key '" + printable(name) + "'; its keys are " + key_names(section));
    const config_key& key = config_keys()[*index];
    const std::string right =
        "; right is " + unit_and_values(key) + ", for example '" + key.name + ": " + key.example + "'";
    if (!value.IsScalar() && !value.IsNull())
        return wrong(path, where, full_name(key) + " has more than one value" + right);
    const std::string text = value.IsScalar() ? value.Scalar() : "";
    auto done = key.value.apply(target.values, text);
    if (!done)
        return wrong(path, where, full_name(key) + " is '" + printable(text) + "': " + done.error().context + right);
    target.lines[*index] = static_cast<uint32_t>(where.line + 1);
    return {};
}

// A name that comes twice is a mistake that would otherwise be settled by the order of the lines.
result<std::string> new_name(const YAML::Node& name, std::vector<std::string>& seen, const std::string& path) {
    if (!name.IsScalar()) return wrong(path, name.Mark(), "a key must be a single word");
    for (const std::string& earlier : seen)
        if (earlier == name.Scalar()) return wrong(path, name.Mark(), "'" + printable(earlier) + "' comes twice");
    seen.push_back(name.Scalar());
    return name.Scalar();
}

result<void> apply_section(config_file& target, const char* section, const YAML::Node& keys, const std::string& path) {
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

// yaml-cpp calls a tab in the indentation an "illegal map value".
result<void> refuse_tabs(std::string_view text, const std::string& path) {
    int line = 0;
    while (!text.empty()) {
        const size_t length = std::min(text.find('\n'), text.size() - 1) + 1;
        const std::string_view indentation = text.substr(0, std::min(text.find_first_not_of(" \t"), length));
        const bool blank = indentation.size() == length || text[indentation.size()] == '\n';
        if (!blank && indentation.find('\t') != std::string_view::npos)
            return fail(code::invalid, "couldn't use '" + path + ":" + std::to_string(line + 1) +
                                           "': the line is indented by a tab; take spaces");
        text.remove_prefix(length);
        line++;
    }
    return {};
}

// yaml-cpp reads brackets within brackets again and again, at each level twice as often: 40 of them take it for ever.
result<void> refuse_depth(std::string_view text, const std::string& path) {
    int line = 1;
    int depth = 0;
    for (const char c : text) {
        if (c == '\n') line++;
        if (c == '[' || c == '{') depth++;
        if (c == ']' || c == '}') depth--;
        if (depth > brackets_max)
            return fail(code::invalid, "couldn't use '" + path + ":" + std::to_string(line) +
                                           "': it has brackets within brackets, more than " +
                                           std::to_string(brackets_max) + " deep; sections hold 'key: value' lines");
    }
    return {};
}

// For who only counts documents.
class no_events : public YAML::EventHandler {
    using mark = YAML::Mark;
    using style = YAML::EmitterStyle::value;
    void OnDocumentStart(const mark&) override {}
    void OnDocumentEnd() override {}
    void OnNull(const mark&, YAML::anchor_t) override {}
    void OnAlias(const mark&, YAML::anchor_t) override {}
    void OnScalar(const mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
    void OnSequenceStart(const mark&, const std::string&, YAML::anchor_t, style) override {}
    void OnSequenceEnd() override {}
    void OnMapStart(const mark&, const std::string&, YAML::anchor_t, style) override {}
    void OnMapEnd() override {}
};

// YAML::LoadAll() never ends, and takes ever more memory, where a text leaves something behind its first document that
// is none: after a ',' at its begin, for instance.
result<void> refuse_more_documents(std::string_view text, const std::string& path) {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    no_events counted;
    if (!parser.HandleNextDocument(counted) || !parser.HandleNextDocument(counted)) return {};
    return fail(code::invalid,
                "couldn't use '" + path + "': it holds more than one document, or a ',' where none belongs");
}

result<void> walk(config_file& target, const YAML::Node& root, const std::string& path) {
    if (root.IsNull()) return {};  // nothing but comments
    if (!root.IsMap()) return wrong(path, root.Mark(), "it must hold sections such as 'agent:'");
    std::vector<std::string> seen;
    for (const auto& pair : root) {
        auto name = new_name(pair.first, seen, path);
        if (!name) return std::move(name).error();
        const char* section = nullptr;
        for (const config_section& each : config_sections())
            if (*name == each.name) section = each.name;
        if (section == nullptr)
            return wrong(path, pair.first.Mark(),
                         "there is no section '" + printable(*name) + "'; the sections are " + section_names());
        auto done = apply_section(target, section, pair.second, path);
        if (!done) return done;
    }
    return {};
}

}  // namespace

uint64_t arena_bytes(const config& site, std::optional<uint64_t> job_bytes, std::optional<uint32_t> job_percent,
                     uint64_t node_bytes) noexcept {
    if (job_bytes) return *job_bytes;
    if (job_percent) return node_bytes / 100 * *job_percent;
    if (site.memory_bytes) return *site.memory_bytes;
    return node_bytes / 100 * site.memory_percent.value_or(0);
}

result<config_file> parse_config(std::string_view text, const std::string& path) {
    auto indented = refuse_tabs(text, path);
    if (!indented) return std::move(indented).error();
    auto shallow = refuse_depth(text, path);
    if (!shallow) return std::move(shallow).error();
    try {
        config_file found;
        found.lines.resize(config_keys().size());
        const auto single = refuse_more_documents(text, path);
        if (!single) return single.error();
        auto done = walk(found, YAML::Load(std::string(text)), path);
        if (!done) return std::move(done).error();
        const auto sound = check_storage(found.values.storage);
        if (!sound) return fail(code::invalid, "couldn't use '" + path + "': " + sound.error().context);
        return found;
    } catch (const YAML::Exception& error) {
        return wrong(path, error.mark, printable(error.msg));
    } catch (const std::bad_alloc&) { return fail(code::no_memory, "couldn't read '" + path + "': out of memory"); }
}

result<config_file> load_config_file(const std::string& path) {
    auto text = read_trusted_file(AT_FDCWD, path, path, file_bytes_max);
    if (text) return parse_config(*text, path);
    if (text.error().what != code::not_found) return std::move(text).error();
    auto nothing = parse_config("", path);
    if (nothing) nothing->exists = false;
    return nothing;
}

result<config> load_config(const std::string& path) {
    auto file = load_config_file(path);
    if (!file) return std::move(file).error();
    return std::move(file->values);
}

}  // namespace varde
