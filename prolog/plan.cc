// What is known of the job here, for topo::make_plan().
#include "prolog/plan.h"

#include "base/fields.h"

namespace varde::node {

result<topo::plan> plan_job_on(const topo::machine& machine, const config& site, uint64_t arena_bytes,
                               uint64_t page_bytes, environment get) {
    topo::request wanted;
    wanted.arena_bytes = arena_bytes;
    wanted.page_bytes = page_bytes;
    if (!site.storage.interface.empty()) wanted.storage.push_back(site.storage.interface);
    if (const char* gpus = get("SLURM_JOB_GPUS"); gpus != nullptr && *gpus != '\0') {
        wanted.gpus.emplace();
        for (const auto name : split(gpus, ',')) wanted.gpus->emplace_back(name);
    }
    const auto cpus = topo::parse_cpus(site.writer_cpus);
    if (cpus) wanted.system_cpus = *cpus;
    auto plan = topo::make_plan(machine, wanted);
    if (plan && !cpus) plan->notes.push_back("agent.cpus is left out of account: " + cpus.error().context);
    return plan;
}

result<topo::plan> plan_job(const config& site, uint64_t arena_bytes, uint64_t page_bytes, environment get) {
    const auto machine = topo::load_machine();
    if (!machine) return machine.error();
    return plan_job_on(*machine, site, arena_bytes, page_bytes, get);
}

}  // namespace varde::node
