// What Slurm must be told: slurm.conf and plugstack.conf.
#include "cli/doctor.h"

#include "base/fields.h"
#include "base/units.h"

#include <array>
#include <cstring>
#include <elf.h>
#include <glob.h>
#include <optional>
#include <sys/stat.h>

namespace varde::cli {

namespace {

constexpr const char* plugin_name = "spank_varde.so";
constexpr size_t files_max = 64;  // plugstack.conf may include itself

std::string in_slurm_conf(const host& machine, const std::string& line) { return machine.slurm_conf + ": " + line; }

// Root's, and nobody else may write it: slurmd runs it as root.
std::optional<std::string> why_not_roots(const host& machine, const std::string& path) {
    struct stat about {};
    if (::stat((machine.root + path).c_str(), &about) != 0) return "there is no such file";
    if (!S_ISREG(about.st_mode) || (about.st_mode & S_IXUSR) == 0) return "it is not a program";
    if (about.st_uid != 0 && machine.root.empty()) return "it is not root's";
    if ((about.st_mode & S_IWOTH) != 0) return "everybody may write it";
    return std::nullopt;
}

// One of Prolog, Epilog, EpilogSlurmctld: ours, or a site's own program that names ours.
void check_hook(const host& machine, const char* key, const char* program, bool runs_here, findings& into) {
    const std::string ours = machine.prefix + "/libexec/varde/" + program;
    const std::string set = setting(machine, key);
    const std::string right = in_slurm_conf(machine, std::string(key) + "=" + ours);
    if (set.empty()) {
        into.push_back({verdict::wrong, key, "not set", right});
        return;
    }
    bool named = false;
    bool elsewhere = false;
    for (const std::string_view each : split(set, ',')) {
        const std::string path(each);
        // The hook of another kind of host need not be here.
        const auto why = why_not_roots(machine, path);
        if (why && runs_here) {
            into.push_back({verdict::wrong, key, path + ": " + *why, right});
            return;
        }
        named = named || path.ends_with(std::string("/") + program) ||
                text_at(machine, path).find(program) != std::string::npos;
        elsewhere = elsewhere || why;
    }
    if (named) into.push_back({verdict::ok, key, set, ""});
    else if (elsewhere) into.push_back({verdict::ok, key, set + ", not on this host: ask where it runs", ""});
    else
        into.push_back({verdict::wrong, key, set + " does not call " + program,
                        right + ", or call it there with the environment passed on"});
}

void check_prolog_flags(const host& machine, findings& into) {
    const std::string set = setting(machine, "PrologFlags");
    const auto has = [&](std::string_view flag) {
        for (const std::string_view each : split(set, ','))
            if (each.size() == flag.size() && ::strncasecmp(each.data(), flag.data(), flag.size()) == 0) return true;
        return false;
    };
    std::string wanted;
    if (!has("Alloc") && !has("Contain") && !has("RunInJob")) wanted = "Alloc";
    if (!has("DeferBatch")) wanted += wanted.empty() ? "DeferBatch" : ",DeferBatch";
    if (wanted.empty()) {
        into.push_back({verdict::ok, "PrologFlags", set, ""});
        return;
    }
    into.push_back({verdict::wrong, "PrologFlags", set.empty() ? "not set" : set,
                    in_slurm_conf(machine, "PrologFlags=" + (set.empty() ? "" : set + ",") + wanted) +
                        "  (else a batch script may start before its nodes have agents)"});
}

// Slurm cuts an epilog off that still drains.
void check_hook_timeout(const host& machine, findings& into) {
    const std::string whole = setting(machine, "PrologEpilogTimeout");
    const std::string set = whole.substr(0, whole.find(' '));
    const auto limit_s = parse_number(set);
    const bool unlimited = !limit_s || *limit_s >= 65534;
    if (unlimited || *limit_s > machine.site.drain_s)
        into.push_back({verdict::ok, "PrologEpilogTimeout", unlimited ? "not set" : set + " s", ""});
    else
        into.push_back({verdict::wrong, "PrologEpilogTimeout",
                        set + " s, and epilog.drain_s is " + std::to_string(machine.site.drain_s) + " s",
                        in_slurm_conf(machine, "PrologEpilogTimeout=" + std::to_string(machine.site.drain_s + 30))});
}

// The files that an "include" of plugstack.conf means.
std::vector<std::string> included(const host& machine, const std::string& by, std::string_view pattern) {
    const std::string folder = pattern.front() == '/' ? "" : by.substr(0, by.rfind('/') + 1);
    std::vector<std::string> paths;
    glob_t found{};
    if (::glob((machine.root + folder + std::string(pattern)).c_str(), 0, nullptr, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            paths.push_back(std::string(found.gl_pathv[i]).substr(machine.root.size()));
    ::globfree(&found);
    return paths;
}

// The lines of plugstack.conf and of what it includes.
std::vector<std::string> plugin_lines(const host& machine, const std::string& conf) {
    std::vector<std::string> files{conf};
    std::vector<std::string> lines;
    for (size_t index = 0; index < files.size() && index < files_max; index++) {
        const std::string text = text_at(machine, files[index]);
        std::string_view rest = text;
        while (!rest.empty()) {
            const std::string_view line = take_until(rest, '\n');
            std::string flat(line.substr(0, line.find('#')));
            for (char& c : flat)
                if (c == '\t' || c == '\r') c = ' ';
            const auto words = split(flat, ' ');
            if (words.size() < 2) continue;
            if (words[0] != "include") lines.push_back(flat);
            else
                for (std::string& path : included(machine, files[index], words[1])) files.push_back(std::move(path));
        }
    }
    return lines;
}

std::string plugstack_conf(const host& machine) {
    const std::string set = setting(machine, "PlugStackConfig");
    return set.empty() ? machine.slurm_conf.substr(0, machine.slurm_conf.rfind('/') + 1) + "plugstack.conf" : set;
}

// The release of the running Slurm: "22.05" of "22.05.8".
std::string running_release(const host& machine) {
    const std::string version = setting(machine, "SLURM_VERSION");
    return version.substr(0, version.find('.', version.find('.') + 1));
}

void check_plugin_file(const host& machine, const std::string& file, findings& into) {
    const std::string built = plugin_release(machine.root + file);
    const std::string running = running_release(machine);
    if (!exists_at(machine, file)) {
        into.push_back({verdict::wrong, "plugin", file + " is missing",
                        "install Varde on this host, or " + plugstack_conf(machine) + ": optional " + machine.prefix +
                            "/lib/varde/" + plugin_name});
    } else if (built.empty()) {
        into.push_back({verdict::wrong, "plugin", file + " is no plugin of Slurm's", "install Varde again"});
    } else if (running.empty()) {
        into.push_back({verdict::warn, "plugin",
                        file + " is built for Slurm " + built + "; which one runs is not known",
                        "see the finding of scontrol"});
    } else if (built != running) {
        into.push_back({verdict::wrong, "plugin", file + " is built for Slurm " + built + ", and " + running + " runs",
                        "build it with the headers of the Slurm that runs: make SLURM_PREFIX=" +
                            machine.slurm_bin.substr(0, machine.slurm_bin.rfind('/'))});
    } else {
        into.push_back({verdict::ok, "plugin", file + " is built for Slurm " + built, ""});
    }
}

}  // namespace

void check_slurm_conf(const host& machine, findings& into) {
    if (!machine.from_file) {
        into.push_back({verdict::ok, "scontrol", "Slurm " + setting(machine, "SLURM_VERSION"), ""});
    } else if (machine.settings.empty()) {
        into.push_back({verdict::wrong, "scontrol", machine.no_answer + "; nor can " + machine.slurm_conf + " be read",
                        machine.site_file + ": slurm: {bin_dir: /where/its/scontrol/is}, and start slurmctld"});
        return;
    } else {
        into.push_back({verdict::warn, "scontrol", machine.no_answer + "; " + machine.slurm_conf + " is read instead",
                        "start slurmctld, or " + machine.site_file + ": slurm: {bin_dir: /where/its/scontrol/is}"});
    }
    check_prolog_flags(machine, into);
    check_hook(machine, "Prolog", "varde-prolog", machine.runs_slurmd, into);
    check_hook(machine, "Epilog", "varde-epilog", machine.runs_slurmd, into);
    check_hook(machine, "EpilogSlurmctld", "varde-controller", machine.runs_slurmctld, into);
    check_hook_timeout(machine, into);
    // What it says is a default, and jobs with checkpoints do not take it.
    const std::string requeue = setting(machine, "JobRequeue");
    into.push_back({verdict::ok, "JobRequeue",
                    (requeue.empty() ? "not set" : requeue) + "; jobs with checkpoints ask for --requeue themselves",
                    ""});
}

void check_plugin(const host& machine, findings& into) {
    const std::string conf = plugstack_conf(machine);
    const std::vector<std::string> lines = plugin_lines(machine, conf);
    const std::string right = "optional " + machine.prefix + "/lib/varde/" + plugin_name;
    const std::string* line = nullptr;
    for (const std::string& each : lines)
        if (each.find(plugin_name) != std::string::npos) line = &each;
    if (line == nullptr) {
        into.push_back(
            {verdict::wrong, "plugstack.conf", conf + " has no line of " + plugin_name, conf + ": " + right});
        return;
    }
    const auto words = split(*line, ' ');
    if (words[0] == "optional") into.push_back({verdict::ok, "plugstack.conf", *line, ""});
    else
        into.push_back({verdict::warn, "plugstack.conf",
                        *line + ": a plugin that does not fit keeps all from submitting", conf + ": " + right});
    check_plugin_file(machine, std::string(words[1]), into);
    // The proof: Slurm's own command knows the options.
    const auto help = ask_slurm(machine, "sbatch", {"--help"});
    if (help && help->find("--ckpt-interval") != std::string::npos)
        into.push_back({verdict::ok, "sbatch --help", "knows --ckpt-interval", ""});
    else
        into.push_back({verdict::wrong, "sbatch --help",
                        help ? "does not know --ckpt-interval: the plugin is not loaded" : help.error().context,
                        conf + ": " + right + ", readable by all on this host"});
}

// The plugin says it in the number `plugin_version`, as SLURM_VERSION_NUMBER: 0x160508 is 22.05.8.
std::string plugin_release(const std::string& file) {
    host here;
    const std::string bytes = text_at(here, file);
    const auto read = [&](auto& target, uint64_t offset) {
        if (offset > bytes.size() || bytes.size() - offset < sizeof target) return false;
        std::memcpy(&target, bytes.data() + offset, sizeof target);
        return true;
    };
    Elf64_Ehdr head{};
    if (!read(head, 0) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64)
        return "";
    for (uint16_t section = 0; section < head.e_shnum; section++) {
        Elf64_Shdr symbols{};
        Elf64_Shdr names{};
        if (!read(symbols, head.e_shoff + uint64_t{section} * sizeof symbols) || symbols.sh_type != SHT_DYNSYM)
            continue;
        if (!read(names, head.e_shoff + uint64_t{symbols.sh_link} * sizeof names)) return "";
        for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= symbols.sh_size; at += sizeof(Elf64_Sym)) {
            Elf64_Sym symbol{};
            std::array<char, 15> name{};
            if (!read(symbol, symbols.sh_offset + at) || !read(name, names.sh_offset + symbol.st_name)) continue;
            uint32_t number = 0;
            // Read-only data lies in the file where it lies in memory.
            if (name.back() != '\0' || std::string_view(name.data(), name.size() - 1) != "plugin_version") continue;
            if (!read(number, symbol.st_value)) return "";
            const std::string minor = std::to_string(number >> 8 & 0xff);
            return std::to_string(number >> 16) + "." + (minor.size() == 1 ? "0" : "") + minor;
        }
    }
    return "";
}

}  // namespace varde::cli
