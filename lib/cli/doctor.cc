// varde doctor: what is right and wrong on this host, each with the line to change.
#include "cli/doctor.h"

#include "cli/json_text.h"
#include "cli/verbs.h"
#include "pack/text.h"

#include <algorithm>
#include <array>
#include <climits>
#include <fmt/format.h>
#include <unistd.h>

namespace varde::cli {

namespace {

const char* name_of(verdict what) {
    switch (what) {
    case verdict::ok: return "ok";
    case verdict::warn: return "warn";
    case verdict::wrong: return "wrong";
    }
    return "wrong";
}

// "/usr" of "/usr/bin/varde".
std::string prefix_of_this_program() {
    std::array<char, PATH_MAX> target{};
    const ssize_t length = ::readlink("/proc/self/exe", target.data(), target.size());
    const std::string path(target.data(), static_cast<size_t>(std::max<ssize_t>(length, 0)));
    const size_t folder = path.rfind("/bin/");
    return folder == std::string::npos ? "/usr" : path.substr(0, folder);
}

std::string kind_of(const host& machine) {
    const std::string node = machine.runs_slurmd ? "node (slurmd runs)" : "";
    const std::string controller = machine.runs_slurmctld ? "controller (slurmctld runs)" : "";
    if (!node.empty() && !controller.empty()) return node + ", " + controller;
    if (!node.empty() || !controller.empty()) return node + controller;
    return "login host (no daemon of Slurm's runs)";
}

void print_lines(const findings& all, console to) {
    size_t width = 0;
    for (const finding& each : all) width = std::max(width, each.what.size());
    for (const finding& each : all) {
        const std::string change = each.change.empty() ? "" : "  ->  " + pack::escaped(each.change, 4096);
        fmt::print(to.out, "{:<5}  {:<{}}  {}{}\n", name_of(each.is), pack::escaped(each.what, 400), width,
                   pack::escaped(each.found, 4096), change);
    }
}

void print_json(const findings& all, bool good, console to) {
    auto checks = nlohmann::ordered_json::array();
    for (const finding& each : all)
        checks.push_back(
            {{"verdict", name_of(each.is)}, {"what", each.what}, {"found", each.found}, {"change", each.change}});
    fmt::print(to.out, "{}", json_text({{"good", good}, {"checks", checks}}));
}

}  // namespace

findings examine(host machine, const std::string& directory) {
    look_at(machine);
    findings all{{verdict::ok, "host", kind_of(machine), ""}};
    check_versions(machine, all);
    check_site(machine, all);
    check_slurm_conf(machine, all);
    check_plugin(machine, all);
    // What follows is of hosts that run agents.
    if (machine.runs_slurmd) {
        check_run_directory(machine, all);
        check_storage_network(machine, all);
        check_memory(machine, all);
    }
    check_kernel(machine, all);
    if (!directory.empty()) check_directory(directory, all);
    return all;
}

status doctor(const doctor_options& options, console to) {
    host machine;
    machine.root = options.root;
    machine.prefix = options.prefix.empty() ? prefix_of_this_program() : options.prefix;
    if (!options.file.empty()) machine.site_file = options.file;
    machine.run_directory = options.run_directory;
    const findings all = examine(machine, options.directory);
    bool good = true;
    for (const finding& each : all) good = good && each.is != verdict::wrong;
    if (options.json) print_json(all, good, to);
    else print_lines(all, to);
    return good ? status::good : status::damaged;
}

}  // namespace varde::cli
