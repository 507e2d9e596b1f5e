// What prolog and epilog read as root: words of the job, files of the kernel and of Slurm, their own files in the run
// directory, and bytes that the user's processes send.
//
// The first byte says how the rest is read.  What is taken of our own files must come back from a second round.
#include "base/fields.h"
#include "base/limits.h"
#include "base/units.h"
#include "config/config.h"
#include "prolog/agent_start.h"
#include "prolog/cgroup.h"
#include "prolog/checkpoint_place.h"
#include "prolog/directory_look.h"
#include "prolog/huge_pages.h"
#include "prolog/memory.h"
#include "prolog/process_table.h"
#include "prolog/request.h"
#include "prolog/route_ledger.h"
#include "prolog/slurm_host.h"
#include "prolog/state.h"

#include <cstdint>
#include <cstdlib>
#include <map>

using namespace varde;
using namespace varde::node;

namespace {

void require(bool holds) {
    if (!holds) std::abort();
}

bool is_line(std::string_view text) { return printable(text, text.size()) == text; }

std::map<std::string, std::string, std::less<>> table;
const char* look_up(const char* name) {
    const auto found = table.find(name);
    return found == table.end() ? nullptr : found->second.c_str();
}

void same_state(const state& what) {
    const auto again = decode_state(encode_state(what));
    require(again && again->job_id == what.job_id && again->uid == what.uid && again->ready == what.ready);
    require(again->agent_pid == what.agent_pid && again->agent_start_ticks == what.agent_start_ticks);
    require(again->probe == what.probe && what.agent_pid >= 0 && what.probe.pid >= 0);
}

// "NAME=value", each ended by a null.
void variables(std::string_view text) {
    table.clear();
    while (!text.empty()) {
        std::string_view entry = take_until(text, '\0');
        const std::string_view name = take_until(entry, '=');
        table.insert_or_assign(std::string(name), std::string(entry));
    }
    const auto job = read_request(look_up);
    if (!job) return require(is_line(job.error().context));
    require(job->job_id != 0 && job->uid != 0 && job->uid != UINT32_MAX && job->gid != UINT32_MAX);
    require(!job->wish.memory_bytes || *job->wish.memory_bytes <= limits::range_bytes_max);
    require(arena_bytes({}, job->wish.memory_bytes, job->wish.memory_percent, 1ULL << 44) <= limits::range_bytes_max);
    state made;
    if (const auto place = place_of(*job)) {
        require(place->directory.starts_with('/') && place->directory.size() < limits::path_bytes_max);
        made.directory = place->directory;
    }
    made.reason = job->user + job->job_name + job->work_directory;
    same_state(made);
}

void taken(std::string_view text) {
    const auto read = decode_taken(text);
    if (!read) return;
    const auto again = decode_taken(encode_taken(*read));
    require(again && *again == *read);
    for (const grown_pool& each : read->pools) require(each.before <= each.after);
}

void routes(std::string_view text) {
    const auto read = decode_routes(text);
    if (!read) return;
    const auto again = decode_routes(encode_routes(*read));
    require(again && *again == *read);
}

void kernel(std::string_view text) {
    if (const auto memory = parse_meminfo(text)) require(memory->total_bytes % 1024 == 0);
    if (const auto where = find_hierarchy(text, "memory")) require(where->path.starts_with('/'));
    if (const auto process = parse_stat(text)) require(process->parent >= 0 && process->session >= 0);
}

void slurm(std::string_view text) {
    if (const auto line = missing_prolog_flags(text)) require(is_line(*line));
    if (const auto directory = bin_directory_of(std::string(text))) require(directory->ends_with("/bin"));
}

void user(std::string_view text) {
    const std::string said = read_ready_line(text);
    require(is_line(said) && said.size() < 1024 && (said.empty() == (text == "ready")));
    const auto view = decode_view(text);
    if (!view) return;
    require(is_line(view->problem) && view->problem.size() < 4096);
    require(decode_view(encode_view(*view)).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
    switch (data[0]) {
    case 'e': variables(text); break;
    case 't': taken(text); break;
    case 'r': routes(text); break;
    case 'k': kernel(text); break;
    case 's': slurm(text); break;
    case 'u': user(text); break;
    case 'j':
        if (const auto read = decode_state(std::string(text))) same_state(*read);
        break;
    default: break;
    }
    return 0;
}
