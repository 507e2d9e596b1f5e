// Writes what the table of keys (lib/config/keys.cc) says into the two documents for people, between their marks:
//
//   config_pages [--check] conf/varde.yaml packaging/man/varde.yaml.5
//
// --check changes nothing, and ends with 1 where a document says something else.
#include "base/options.h"
#include "config/keys.h"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

using namespace varde;

namespace {

constexpr size_t columns_max = 118;

// One paragraph in lines that begin with `margin`.
std::string wrapped(const std::string& text, const std::string& margin) {
    std::string lines;
    std::string line = margin;
    std::istringstream words(text);
    bool sentence_ended = false;
    for (std::string word; words >> word;) {
        const std::string gap = line == margin ? "" : sentence_ended ? "  " : " ";
        if (line.size() + gap.size() + word.size() > columns_max) {
            lines += line + "\n";
            line = margin + word;
        } else {
            line += gap + word;
        }
        sentence_ended = word.ends_with('.');
    }
    return lines + line + "\n";
}

// "Unit: checkpoints, 1 to 1000000.  The job's --ckpt-keep wins over it."
std::string unit_sentence(const config_key& key) {
    std::string text = (*key.unit != '\0' ? "Unit: " : "Value: ") + unit_and_values(key) + ".";
    for (const option_rule& rule : option_rules())
        if (key.option != nullptr && std::string_view(rule.variable) == key.option)
            text += std::string("  The job's --") + rule.option + " wins over it.";
    return text;
}

std::string yaml_text() {
    std::string text;
    for (const config_section& section : config_sections()) {
        text += "\n" + wrapped(section.meaning, "# ") + "#" + section.name + ":\n";
        for (const config_key& key : config_keys()) {
            if (std::string_view(key.section) != section.name) continue;
            text += wrapped(key.meaning, "  # ") + wrapped(unit_sentence(key), "  # ");
            text += std::string("  #") + key.name + ": " + key.value.show(config{}) + "\n";
        }
    }
    return text;
}

// roff takes a backslash, a hyphen and a dot or quote at the start of a line for its own.
std::string roff(const std::string& text) {
    std::string out;
    for (const char c : text) {
        if (c == '\\') out += "\\e";
        else if (c == '-') out += "\\-";
        else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += std::string("\\&") + c;
        else out += c;
    }
    return out;
}

std::string manual_text() {
    std::string text;
    for (const config_section& section : config_sections()) {
        text += std::string(".SS ") + section.name + "\n" + roff(wrapped(section.meaning, ""));
        for (const config_key& key : config_keys()) {
            if (std::string_view(key.section) != section.name) continue;
            text += ".TP\n.B " + full_name(key) + "\n" + roff(wrapped(key.meaning, ""));
            text += ".br\n" + roff(wrapped(unit_sentence(key), ""));
            text += ".br\nDefault: " + roff(key.value.show(config{})) + "\n";
        }
    }
    return text;
}

// The page with what is between its marks made anew; empty where it has no marks.
std::string renewed(const std::string& page, const std::string& keys) {
    const size_t begin = page.find("keys begin");
    const size_t end = page.find("keys end");
    if (begin == std::string::npos || end == std::string::npos || end < begin) return "";
    const size_t first = page.find('\n', begin) + 1;
    const size_t last = page.rfind('\n', end) + 1;
    return page.substr(0, first) + keys + page.substr(last);
}

std::string read_file(const char* path) {
    std::ifstream in(path);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
}

bool handle(const char* path, const std::string& keys, bool check) {
    const std::string page = read_file(path);
    const std::string right = renewed(page, keys);
    if (right.empty()) {
        std::fprintf(stderr, "couldn't find the lines 'keys begin' and 'keys end' in '%s'\n", path);
        return false;
    }
    if (right == page) return true;
    if (check) {
        std::fprintf(stderr, "'%s' is not what lib/config/keys.cc says: run 'make config-pages'\n", path);
        return false;
    }
    std::ofstream out(path);
    out << right;
    out.close();
    if (!out) std::fprintf(stderr, "couldn't write '%s'\n", path);
    return out.good();
}

}  // namespace

int main(int argc, char** argv) {
    const bool check = argc > 1 && std::strcmp(argv[1], "--check") == 0;
    const int first = check ? 2 : 1;
    if (argc != first + 2) {
        std::fprintf(stderr, "usage: config_pages [--check] VARDE.YAML VARDE.YAML.5\n");
        return 2;
    }
    const bool yaml = handle(argv[first], yaml_text(), check);
    const bool manual = handle(argv[first + 1], manual_text(), check);
    return yaml && manual ? 0 : 1;
}
