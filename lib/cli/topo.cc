// varde topo: the machine, and the plan of a job on it.
#include "cli/topo.h"

#include "base/fields.h"
#include "base/handle.h"
#include "base/units.h"
#include "cli/json_text.h"
#include "cli/verbs.h"
#include "pack/text.h"
#include "topo/text_file.h"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>

namespace varde::cli {

namespace {

constexpr uint64_t default_part = 10;  // a tenth, as varde.yaml's memory
constexpr uint64_t unit_bytes = 1U << 20;

failure wrong_option(const char* name, const std::string& value, const std::string& reason, const char* example) {
    return fail(code::invalid,
                fmt::format("couldn't read {}={}: {}; give it as {}", name, pack::in_quotes(value), reason, example));
}

result<topo::cpu_set> read_cpus(const char* name, const std::string& value) {
    auto cpus = topo::parse_cpus(value);
    if (!cpus) return wrong_option(name, value, cpus.error().context, "0-15,32");
    return cpus;
}

uint64_t memory_of(const topo::machine& what) {
    uint64_t bytes = 0;
    for (const auto& each : what.nodes)
        if (each.kind == topo::memory_kind::cpu) bytes += each.bytes;
    return bytes;
}

// A mistyped name is noted by the plan; a mistyped number or list is wrong usage.
result<topo::request> read_request(const topo_options& options, const topo::machine& on) {
    topo::request wanted;
    wanted.arena_bytes = memory_of(on) / default_part / unit_bytes * unit_bytes;
    if (!options.memory.empty()) {
        const auto bytes = parse_size_bytes(options.memory);
        if (!bytes) return wrong_option("--memory", options.memory, bytes.error().context, "64G");
        wanted.arena_bytes = *bytes;
    }
    if (!options.cpus.empty()) {
        const auto cpus = read_cpus("--cpus", options.cpus);
        if (!cpus) return cpus.error();
        wanted.cpus = *cpus;
    }
    const auto system = read_cpus("--system-cpus", options.system_cpus);
    if (!system) return system.error();
    wanted.system_cpus = *system;
    if (!options.gpus.empty()) {
        wanted.gpus.emplace();
        if (options.gpus != "none")
            for (const std::string_view each : split(options.gpus, ',')) wanted.gpus->emplace_back(each);
    }
    wanted.ranks = options.ranks;
    wanted.storage = options.storage;
    return wanted;
}

result<topo::plan> read_plan(const std::string& path) {
    const std::string what = "couldn't read " + pack::in_quotes(path);
    const unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file) return os_error(errno, what);
    const auto text = topo::read_all(file.get(), topo::plan_bytes_max, what);
    if (!text) return text.error();
    auto plan = topo::parse_plan(*text);
    if (!plan) return fail(plan.error().what, what + ": " + plan.error().context);
    return plan;
}

result<topo_view> look(const topo_options& options) {
    topo_view view;
    auto machine =
        options.machine.empty() ? topo::load_machine(topo::ask_drivers::yes) : topo::load_machine_file(options.machine);
    if (!machine) return machine.error();
    view.machine = *std::move(machine);
    auto wanted = read_request(options, view.machine);
    if (!wanted) return wanted.error();
    view.wanted = *std::move(wanted);
    auto plan = options.from.empty() ? topo::make_plan(view.machine, view.wanted) : read_plan(options.from);
    if (!plan) return plan.error();
    view.plan = *std::move(plan);
    return view;
}

result<void> write_file(const std::string& path, std::string_view text) {
    const std::string what = "couldn't write " + pack::in_quotes(path);
    unique_fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!file) return os_error(errno, what);
    while (!text.empty()) {
        const ssize_t done = ::write(file.get(), text.data(), text.size());
        if (done < 0 && errno != EINTR) return os_error(errno, what);
        text.remove_prefix(done < 0 ? 0 : static_cast<size_t>(done));
    }
    if (::close(file.release()) != 0) return os_error(errno, what);
    return {};
}

}  // namespace

status topo(const topo_options& options, console to) {
    const auto view = look(options);
    if (!view) {
        complain(to, view.error());
        return status::failed;
    }
    if (!options.svg.empty()) {
        const auto written = write_file(options.svg, topo_svg(*view));
        if (written) return status::good;
        complain(to, written.error());
        return status::failed;
    }
    if (options.json) fmt::print(to.out, "{}", json_text(topo_json(*view)));
    else if (options.plan) fmt::print(to.out, "{}", topo::format_plan(view->plan));
    else fmt::print(to.out, "{}", topo_text(*view));
    return status::good;
}

}  // namespace varde::cli
