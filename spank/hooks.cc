// The state of one sbatch, salloc or srun: which --ckpt-* options were given, and what they come to.
//
// SPANK hands its callbacks no pointer of the plugin's own, so there is exactly one static one, here.  It lives from
// slurm_spank_init to slurm_spank_exit.  No exception leaves this file: the only one possible, bad_alloc, ends in a
// message.
#include "spank/hooks.h"

#include "base/options.h"

#include <array>
#include <climits>
#include <cstdlib>
#include <new>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

constexpr const char* out_of_memory = "couldn't read the --ckpt-* options: out of memory";

struct session {
    std::vector<std::optional<std::string>> texts;  // by index of option_rules()
    std::string message;                            // of the last failure; Slurm's callers want a C string
};
session* current = nullptr;

// The name under which Slurm hands an option on to sruns inside the job (plugin "varde").
std::string inherited_name(const char* option) {
    std::string name = std::string("SLURM_SPANK__SLURM_SPANK_OPTION_varde_") + option;
    for (char& c : name)
        if (c == '-') c = '_';
    return name;
}

std::optional<size_t> index_of(const char* variable) {
    const auto rules = varde::option_rules();
    for (size_t i = 0; i < rules.size(); i++)
        if (std::string_view(rules[i].variable) == variable) return i;
    return std::nullopt;
}

const char* keep_message(std::string text) {
    current->message = std::move(text);
    return current->message.c_str();
}

bool any_given() {
    for (const auto& text : current->texts)
        if (text) return true;
    return false;
}

// Option `index` from its VARDE_ variable, where the user gave none; false with the message kept.
bool take_default(size_t index) {
    if (current->texts[index]) return true;
    const varde::option_rule& rule = varde::option_rules()[index];
    const std::string variable = std::string("VARDE_") + rule.variable;
    const char* text = std::getenv(variable.c_str());
    if (text == nullptr || *text == '\0') return true;
    varde::options scratch;
    const auto done = varde::apply_option(scratch, rule, text);
    if (!done) {
        keep_message(done.error().context + " (it came from " + variable + ")");
        return false;
    }
    current->texts[index] = text;
    return true;
}

// The interval first: the other variables are defaults of jobs that ask for checkpoints, and touch no other job.
bool take_defaults() {
    const auto interval = index_of("INTERVAL");
    if (interval && !take_default(*interval)) return false;
    if (!any_given()) return true;
    for (size_t i = 0; i < current->texts.size(); i++)
        if (!take_default(i)) return false;
    return true;
}

// Where a job that asks for checkpoints says nothing of their place, the site may.
bool take_site_directory(const char* site_directory) {
    const auto index = index_of("DIR");
    if (site_directory == nullptr || !index || current->texts[*index] || varde_wanted() == 0) return true;
    varde::options scratch;
    const auto done = varde::apply_option(scratch, varde::option_rules()[*index], site_directory);
    if (!done || *site_directory != '/') {
        keep_message((done ? "couldn't use 'dir=" + std::string(site_directory) + "': it is not an absolute path"
                           : done.error().context) +
                     " (it came from plugstack.conf; ask the administrator, or give --ckpt-dir)");
        return false;
    }
    current->texts[*index] = site_directory;
    return true;
}

// "a" below "/b%u" is "/b%%u/a": what the system says is no pattern.
std::string below(const std::string& base, const std::string& path) {
    if (path.starts_with('/')) return path;
    std::string whole;
    for (const char c : base) whole += c == '%' ? "%%" : std::string(1, c);
    return whole + "/" + path;
}

// A relative directory means the job's working directory, as for --output; the training may run in another one.
bool settle_directory(const char* working_directory) {
    const auto index = index_of("DIR");
    if (!index || !current->texts[*index] || current->texts[*index]->starts_with('/')) return true;
    std::string base = working_directory == nullptr ? "" : working_directory;
    if (!base.starts_with('/')) {
        std::array<char, PATH_MAX> here{};
        if (::getcwd(here.data(), here.size()) == nullptr) {
            keep_message(
                "couldn't use '--ckpt-dir=" + *current->texts[*index] +
                "': the current directory is unknown; give an absolute path, for example --ckpt-dir=/scratch/%u/ckpt");
            return false;
        }
        base = base.empty() ? here.data() : std::string(here.data()) + "/" + base;
    }
    const std::string whole = below(base, *current->texts[*index]);
    varde::options scratch;
    const auto done = varde::apply_option(scratch, varde::option_rules()[*index], whole);
    if (!done) {
        keep_message(done.error().context);
        return false;
    }
    current->texts[*index] = whole;
    return true;
}

}  // namespace

extern "C" {

const varde_option* varde_option_at(int index) {
    // Filled once; the texts are those of the static table.
    static std::array<varde_option, 16> table = [] {
        std::array<varde_option, 16> made{};
        size_t count = 0;
        for (const varde::option_rule& rule : varde::option_rules())
            made[count++] = {rule.option, rule.value, rule.usage, rule.variable};
        return made;
    }();
    if (index < 0 || static_cast<size_t>(index) >= varde::option_rules().size()) return nullptr;
    return &table[static_cast<size_t>(index)];
}

void varde_begin(void) {
    varde_end();
    current = new (std::nothrow) session;
    if (current == nullptr) return;
    try {
        current->texts.resize(varde::option_rules().size());
    } catch (const std::bad_alloc&) { varde_end(); }
}

void varde_end(void) {
    delete current;
    current = nullptr;
}

void varde_forget_inherited(int new_job) {
    try {
        for (const varde::option_rule& rule : varde::option_rules()) {
            ::unsetenv(inherited_name(rule.option).c_str());
            if (new_job == 0) continue;
            ::unsetenv((std::string("SLURM_VARDE_") + rule.variable).c_str());
            ::unsetenv((std::string("SLURM_SPANK_VARDE_") + rule.variable).c_str());
        }
    } catch (const std::bad_alloc&) {
        // Then the options are inherited: unwanted, harmless, and the program itself is about to fail for want of
        // memory.
    }
}

const char* varde_take(int index, const char* text) {
    const auto rules = varde::option_rules();
    if (current == nullptr) return out_of_memory;
    if (index < 0 || static_cast<size_t>(index) >= rules.size())
        return "couldn't read an option: its number is unknown";
    try {
        const auto at = static_cast<size_t>(index);
        varde::options scratch;
        const auto done = varde::apply_option(scratch, rules[at], text == nullptr ? "" : text);
        if (!done) return keep_message(done.error().context);
        current->texts[at] = text;
        return nullptr;
    } catch (const std::bad_alloc&) { return out_of_memory; }
}

const char* varde_settle(int use_defaults, const char* site_directory, const char* working_directory) {
    if (current == nullptr) return out_of_memory;
    try {
        if (use_defaults != 0 && (!take_defaults() || !take_site_directory(site_directory)))
            return current->message.c_str();
        if (!settle_directory(working_directory)) return current->message.c_str();
        return nullptr;
    } catch (const std::bad_alloc&) { return out_of_memory; }
}

const char* varde_value(int index) {
    if (current == nullptr || index < 0 || static_cast<size_t>(index) >= current->texts.size()) return nullptr;
    const auto& text = current->texts[static_cast<size_t>(index)];
    return text ? text->c_str() : nullptr;
}

int varde_wanted(void) {
    const auto interval = index_of("INTERVAL");
    if (current == nullptr || !interval || !current->texts[*interval]) return 0;
    return *current->texts[*interval] != "off";
}

}  // extern "C"
