// Launchers' environments: torchrun, Open MPI, MPICH and its relatives, Slurm, or none.
#include "client/launcher.h"

#include "base/handle.h"
#include "base/limits.h"
#include "base/units.h"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <span>
#include <sys/utsname.h>
#include <unistd.h>

namespace varde::client {

namespace {

struct start {
    place_numbers numbers;
    std::string launch;  // empty: the launcher gives no identity
};

bool has(environment get, const char* name) {
    const char* text = get(name);
    return text != nullptr && *text != '\0';
}

std::string text_of(environment get, const char* name, const char* otherwise) {
    return has(get, name) ? get(name) : otherwise;
}

struct variable {
    const char* name;
    int64_t* target;
};

// Reads the variables that are set; one that is no number is an error that names it.
result<void> read_numbers(environment get, std::span<const variable> variables) {
    for (const variable& each : variables) {
        if (!has(get, each.name)) continue;
        const auto number = parse_number(get(each.name), limits::world_max);
        if (!number)
            return fail(code::invalid, std::string("couldn't read ") + each.name + "='" + get(each.name) +
                                           "' of the launcher: it is no number up to " +
                                           std::to_string(limits::world_max) +
                                           "; give rank, world, ... in varde_options");
        *each.target = static_cast<int64_t>(*number);
    }
    return {};
}

std::string text_of(const process_facts& facts, const process_mark& who) {
    return facts.host + ' ' + std::to_string(who.id) + ' ' + std::to_string(who.start_ticks);
}

// "slurm JOB.RESTART.STEP", or "" outside of a job.
std::string slurm_identity(environment get) {
    if (!has(get, "SLURM_JOB_ID")) return {};
    return "slurm " + text_of(get, "SLURM_JOB_ID", "") + '.' + text_of(get, "SLURM_RESTART_COUNT", "0") + '.' +
           text_of(get, "SLURM_STEP_ID", "batch");
}

// MPI launchers tell no node number that is safe to use (that of the Slurm step is the daemon's, not ours).  Where
// ranks fill node after node evenly it follows from the ranks.
void derive_node(place_numbers& numbers) {
    const auto [rank, world, local_rank, local_count] =
        std::array{numbers.rank, numbers.world, numbers.local_rank, numbers.local_count};
    if (numbers.node_index >= 0 || numbers.node_count >= 0 || rank < 0 || local_rank < 0 || local_count < 1) return;
    if (world % local_count != 0 || rank % local_count != local_rank) return;
    numbers.node_index = rank / local_count;
    numbers.node_count = world / local_count;
}

result<start> from_torchrun(environment get) {
    start found;
    place_numbers& to = found.numbers;
    const std::array variables{variable{"RANK", &to.rank},
                               variable{"WORLD_SIZE", &to.world},
                               variable{"LOCAL_RANK", &to.local_rank},
                               variable{"LOCAL_WORLD_SIZE", &to.local_count},
                               variable{"GROUP_RANK", &to.node_index},
                               variable{"GROUP_WORLD_SIZE", &to.node_count}};
    if (auto read = read_numbers(get, variables); !read) return std::move(read).error();
    derive_node(to);
    // Two starts may have the same restart count (a node that joined is no restart), but never the same end point.
    const std::string job = slurm_identity(get);
    found.launch = job + (job.empty() ? "" : " ") + "torchrun " + text_of(get, "TORCHELASTIC_RUN_ID", "none") + '.' +
                   text_of(get, "TORCHELASTIC_RESTART_COUNT", "0") + ' ' + text_of(get, "MASTER_ADDR", "") + ':' +
                   text_of(get, "MASTER_PORT", "");
    return found;
}

// `space` names the start where the launcher has a name for it.
std::string mpi_identity(environment get, const std::string& space, const process_facts& facts,
                         const place_numbers& numbers) {
    const std::string job = has(get, "SLURM_JOB_ID") ? "slurm " + text_of(get, "SLURM_JOB_ID", "") + '.' +
                                                           text_of(get, "SLURM_RESTART_COUNT", "0") + ' '
                                                     : std::string();
    if (!space.empty()) return job + "mpi " + space;
    // All ranks of one node have one parent, the launcher's daemon; over several nodes there is nothing in common.
    if (numbers.world == numbers.local_count) return job + "mpi " + text_of(facts, facts.parent);
    return {};
}

result<start> from_open_mpi(environment get, const process_facts& facts) {
    start found;
    place_numbers& to = found.numbers;
    const std::array variables{variable{"OMPI_COMM_WORLD_RANK", &to.rank}, variable{"OMPI_COMM_WORLD_SIZE", &to.world},
                               variable{"OMPI_COMM_WORLD_LOCAL_RANK", &to.local_rank},
                               variable{"OMPI_COMM_WORLD_LOCAL_SIZE", &to.local_count}};
    if (auto read = read_numbers(get, variables); !read) return std::move(read).error();
    derive_node(to);
    const std::string space =
        text_of(get, "PMIX_NAMESPACE", get("OMPI_MCA_ess_base_jobid") ? get("OMPI_MCA_ess_base_jobid") : "");
    found.launch = mpi_identity(get, space, facts, to);
    return found;
}

result<start> from_mpich(environment get, const process_facts& facts) {
    start found;
    place_numbers& to = found.numbers;
    const std::array variables{variable{"PMI_RANK", &to.rank}, variable{"PMI_SIZE", &to.world},
                               variable{"MPI_LOCALRANKID", &to.local_rank},
                               variable{"MPI_LOCALNRANKS", &to.local_count}};
    if (auto read = read_numbers(get, variables); !read) return std::move(read).error();
    derive_node(to);
    found.launch = mpi_identity(get, {}, facts, to);
    return found;
}

result<start> from_slurm(environment get) {
    start found;
    place_numbers& to = found.numbers;
    const std::array variables{variable{"SLURM_PROCID", &to.rank},
                               variable{"SLURM_NTASKS", &to.world},
                               variable{"SLURM_STEP_NUM_TASKS", &to.world},
                               variable{"SLURM_LOCALID", &to.local_rank},
                               variable{"SLURM_NODEID", &to.node_index},
                               variable{"SLURM_NNODES", &to.node_count},
                               variable{"SLURM_STEP_NUM_NODES", &to.node_count}};
    if (auto read = read_numbers(get, variables); !read) return std::move(read).error();
    if (has(get, "SLURM_STEP_TASKS_PER_NODE") && to.node_index >= 0) {
        const auto tasks = tasks_of_node(get("SLURM_STEP_TASKS_PER_NODE"), static_cast<uint64_t>(to.node_index));
        if (!tasks) return tasks.error();
        to.local_count = *tasks;
    }
    found.launch = slurm_identity(get);
    return found;
}

bool started_by_torchrun(environment get) {
    // RANK and WORLD_SIZE alone are often set by hand in a Slurm step, from Slurm's own numbers.
    return has(get, "RANK") && has(get, "WORLD_SIZE") && (has(get, "LOCAL_WORLD_SIZE") || !has(get, "SLURM_STEP_ID"));
}

bool started_by_mpich(environment get) {
    if (!has(get, "PMI_RANK") || !has(get, "PMI_SIZE")) return false;
    // Slurm's own PMI sets these too; then its other numbers are complete and right.
    return text_of(get, "PMI_RANK", "") != text_of(get, "SLURM_PROCID", "-") ||
           text_of(get, "PMI_SIZE", "") != text_of(get, "SLURM_STEP_NUM_TASKS", "-");
}

result<start> from_launcher(environment get, const process_facts& facts) {
    if (started_by_torchrun(get)) return from_torchrun(get);
    if (has(get, "OMPI_COMM_WORLD_SIZE")) return from_open_mpi(get, facts);
    if (started_by_mpich(get)) return from_mpich(get, facts);
    // In a batch script SLURM_PROCID is 0 and SLURM_NTASKS that of the job, but only one process runs: no step, no
    // ranks.
    if (has(get, "SLURM_STEP_ID") && has(get, "SLURM_PROCID")) return from_slurm(get);
    start alone;
    alone.launch = slurm_identity(get);
    return alone;
}

void prefer(int64_t& number, int64_t given) {
    if (given >= 0) number = given;
}

failure contradiction(const std::string& what) {
    return fail(code::invalid, "couldn't tell this process's place: " + what +
                                   "; correct the launcher's environment or give rank, world, local_rank, local_count, "
                                   "node_index and node_count in varde_options");
}

result<place> check(const place_numbers& of) {
    const std::string rank = "rank " + std::to_string(of.rank) + " of " + std::to_string(of.world);
    const std::string local = "local rank " + std::to_string(of.local_rank) + " of " + std::to_string(of.local_count);
    const std::string node = "node " + std::to_string(of.node_index) + " of " + std::to_string(of.node_count);
    if (of.rank < 0 || of.world < 0) return contradiction("the rank or the number of ranks is not known");
    if (of.local_rank < 0 || of.local_count < 0)
        return contradiction("the rank within the node or the number of ranks on it is not known");
    if (of.node_index < 0 || of.node_count < 0)
        return contradiction("the number of this node or of all nodes is not known");
    if (of.rank >= of.world) return contradiction("there is no " + rank);
    if (of.local_rank >= of.local_count) return contradiction("there is no " + local);
    if (of.node_index >= of.node_count) return contradiction("there is no " + node);
    if (of.local_count > of.world || of.local_rank > of.rank) return contradiction(local + " cannot be " + rank);
    if (of.node_count > of.world)
        return contradiction(std::to_string(of.node_count) + " nodes are more than the " + std::to_string(of.world) +
                             " ranks");
    if (of.node_count == 1 && of.local_count != of.world)
        return contradiction("one node has " + std::to_string(of.local_count) + " of " + std::to_string(of.world) +
                             " ranks");
    if (of.local_count > limits::local_ranks_max)
        return contradiction(local + " is more than the " + std::to_string(limits::local_ranks_max) +
                             " ranks that a node may have");
    if (of.node_count > limits::nodes_max)
        return contradiction(node + " is more than the " + std::to_string(limits::nodes_max) +
                             " nodes that a run may have");
    place found;
    found.rank = static_cast<uint32_t>(of.rank);
    found.world = static_cast<uint32_t>(of.world);
    found.local_rank = static_cast<uint32_t>(of.local_rank);
    found.local_count = static_cast<uint32_t>(of.local_count);
    found.node_index = static_cast<uint32_t>(of.node_index);
    found.node_count = static_cast<uint32_t>(of.node_count);
    return found;
}

// What nobody has told: without a launcher, all ranks are on this node; without anything, there is one.
void complete(place_numbers& numbers) {
    if (numbers.rank < 0 && numbers.world < 0) numbers.rank = 0, numbers.world = 1;
    const bool nothing_of_nodes = numbers.node_count < 0 && numbers.node_index < 0;
    if (numbers.local_rank < 0 && numbers.local_count < 0 && (nothing_of_nodes || numbers.node_count == 1)) {
        numbers.local_rank = numbers.rank;
        numbers.local_count = numbers.world;
    }
    if (nothing_of_nodes && numbers.local_count == numbers.world) numbers.node_index = 0, numbers.node_count = 1;
    derive_node(numbers);
}

}  // namespace

result<uint32_t> tasks_of_node(std::string_view tasks_per_node, uint64_t node_index) {
    uint64_t node = 0;
    std::string_view rest = tasks_per_node;
    while (!rest.empty()) {
        const std::string_view item = rest.substr(0, rest.find(','));
        rest.remove_prefix(item.size() == rest.size() ? rest.size() : item.size() + 1);
        const size_t bracket = item.find("(x");
        const auto tasks = parse_number(item.substr(0, bracket), limits::local_ranks_max);
        uint64_t repeat = 1;
        bool sound = tasks.has_value() && *tasks > 0;
        if (bracket != std::string_view::npos) {
            const auto times = parse_number(item.substr(bracket + 2, item.size() - bracket - 3), limits::nodes_max);
            sound = sound && item.back() == ')' && times.has_value() && *times > 0;
            if (sound) repeat = *times;
        }
        if (!sound) break;
        if (node_index < node + repeat) return static_cast<uint32_t>(*tasks);
        node += repeat;
    }
    return fail(code::invalid, "couldn't find the tasks of node " + std::to_string(node_index) +
                                   " in SLURM_STEP_TASKS_PER_NODE='" + std::string(tasks_per_node) +
                                   "'; give local_count in varde_options");
}

result<place> find_place(const place_numbers& given, std::string_view given_launch, environment get,
                         const process_facts& facts) {
    auto from = from_launcher(get, facts);
    if (!from) return std::move(from).error();
    place_numbers numbers = from->numbers;
    prefer(numbers.rank, given.rank);
    prefer(numbers.world, given.world);
    prefer(numbers.local_rank, given.local_rank);
    prefer(numbers.local_count, given.local_count);
    prefer(numbers.node_index, given.node_index);
    prefer(numbers.node_count, given.node_count);
    complete(numbers);
    auto found = check(numbers);
    if (!found) return found;

    found->launch = given_launch.empty() ? from->launch : std::string(given_launch);
    // A batch script may start several processes one after the other: each is a start of its own.
    const bool batch_alone = from->numbers.rank < 0;
    if (given_launch.empty() && batch_alone && found->world == 1)
        found->launch += (found->launch.empty() ? "local " : " ") + text_of(facts, facts.self);
    else if (given_launch.empty() && batch_alone && found->node_count == 1)
        found->launch += (found->launch.empty() ? "local " : " ") + text_of(facts, facts.parent);
    if (found->launch.empty())
        return fail(
            code::invalid,
            "couldn't tell this start of the job from others: the launcher leaves no name for it; set VARDE_LAUNCH "
            "to a text that is the same on all ranks and new at each start");
    if (found->launch.size() > limits::launch_bytes_max)
        return fail(code::invalid, "couldn't use the name of this start: it has " +
                                       std::to_string(found->launch.size()) + " bytes, more than " +
                                       std::to_string(limits::launch_bytes_max) +
                                       "; set VARDE_LAUNCH to a shorter one");
    return found;
}

namespace {

// Field 22 of /proc/PID/stat: when the process started.  The name in field 2 may hold spaces and brackets, so count
// from the last ')'.
uint64_t start_ticks_of(uint64_t process_id) {
    const std::string path = "/proc/" + std::to_string(process_id) + "/stat";
    const unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, 1024> buffer{};
    const ssize_t length = file ? ::read(file.get(), buffer.data(), buffer.size()) : 0;
    if (length <= 0) return 0;
    std::string_view text(buffer.data(), static_cast<size_t>(length));
    text.remove_prefix(std::min(text.size(), text.rfind(')') + 1));
    for (int field = 2; field < 21 && !text.empty(); field++)
        text.remove_prefix(std::min(text.size(), text.find(' ', 1)));
    if (text.empty()) return 0;
    const auto ticks = parse_number(text.substr(1, text.find(' ', 1) - 1));
    return ticks ? *ticks : 0;
}

}  // namespace

process_facts facts_of_this_process() {
    process_facts facts;
    utsname names{};
    if (::uname(&names) == 0) facts.host = names.nodename;
    facts.self.id = static_cast<uint64_t>(::getpid());
    facts.parent.id = static_cast<uint64_t>(::getppid());
    facts.self.start_ticks = start_ticks_of(facts.self.id);
    facts.parent.start_ticks = start_ticks_of(facts.parent.id);
    return facts;
}

}  // namespace varde::client
