// From a file, or from the machine.
#include "agent/plan.h"

#include "config/trusted_file.h"
#include "store/files.h"

#include <fcntl.h>

namespace varde::agent {

result<topo::plan> read_plan(const std::string& path) {
    const auto text = read_trusted_file(AT_FDCWD, path, path, topo::plan_bytes_max);
    if (!text) return text.error();
    auto plan = topo::parse_plan(*text);
    if (plan) return plan;
    failure why = std::move(plan).error();
    why.context = "couldn't use the plan '" + path + "': " + why.context;
    return why;
}

result<topo::plan> plan_here(uint64_t arena_bytes, const std::string& root) {
    const std::string path = root + "/sys/devices/system/node/online";
    const auto nodes = store::files::read_text(AT_FDCWD, path, 4096, path);
    if (!nodes || nodes->find_first_of(",-") == std::string::npos) return topo::plan{};
    const auto machine = topo::load_machine();
    if (!machine) return machine.error();
    topo::request wanted;
    wanted.arena_bytes = arena_bytes;
    wanted.cpus = machine->allowed;
    auto plan = topo::make_plan(*machine, wanted);
    if (plan) plan->writers.reset();  // it is one of the ranks' own processes, and runs where they may
    return plan;
}

}  // namespace varde::agent
