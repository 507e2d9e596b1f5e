// varde doctor: one finding per thing that must be right on a host, and what it is judged by.
//
// A check is a function from a host to findings. It reads files below `host.root` and runs programs below it, so tests
// (and who looks at an image of a node) make a host of a folder. What has no file comes in through `system_calls`.
#pragma once

#include "base/result.h"
#include "config/config.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace varde::cli {

enum class verdict : uint8_t { ok, warn, wrong };

struct finding {
    verdict is = verdict::ok;
    std::string what;    // "PrologFlags"
    std::string found;   // "Alloc"
    std::string change;  // the line to change, and where; empty where nothing is to be changed
};
using findings = std::vector<finding>;

// Facts without a file; tests have their own.
struct system_calls {
    int (*try_ring)();         // io_uring_setup: 0, or errno
    bool (*clock_in_step)();   // adjtimex: the clock is kept in step with others
    uint64_t (*lock_limit)();  // RLIMIT_MEMLOCK, hard; UINT64_MAX: none
    int timeout_ms = 5000;     // for each program of Slurm's
};
extern const system_calls host_calls;

struct host {
    std::string root;    // "" or a folder that stands for "/"
    std::string prefix;  // where Varde is installed: "/usr"
    std::string site_file = config_path;
    std::string run_directory = "/run/varde";
    system_calls calls = host_calls;

    // Found by look_at():
    bool runs_slurmd = false;
    bool runs_slurmctld = false;
    std::string slurm_bin;                        // "/usr/bin"
    std::string slurm_conf;                       // "/etc/slurm/slurm.conf"
    std::map<std::string, std::string> settings;  // of `scontrol show config`, else of slurm.conf; keys in lower case
    bool from_file = false;                       // settings are of the file, because scontrol did not answer
    std::string no_answer;                        // what scontrol said instead
    varde::config site;                           // varde.yaml, or the defaults where it is refused
};

// Fills in what is found by looking.
void look_at(host& machine);

// The value of a key of slurm.conf; empty where it is not set.
std::string setting(const host& machine, const std::string& key);

// Runs a program of Slurm's ("scontrol") with a deadline; its output, or why there is none.
result<std::string> ask_slurm(const host& machine, const std::string& program, std::vector<std::string> arguments);

// A text file below the root; empty where it cannot be read.
std::string text_at(const host& machine, const std::string& path);
bool exists_at(const host& machine, const std::string& path);

// Is a process of this name running?  Its number, or 0.
uint32_t process_named(const host& machine, std::string_view name);

// The checks, in the order of the output.
void check_versions(const host& machine, findings& into);
void check_site(const host& machine, findings& into);  // varde.yaml
void check_slurm_conf(const host& machine, findings& into);
void check_plugin(const host& machine, findings& into);
void check_run_directory(const host& machine, findings& into);
void check_storage_network(const host& machine, findings& into);
void check_memory(const host& machine, findings& into);  // limits, huge pages, control groups
void check_kernel(const host& machine, findings& into);  // version, io_uring, clock
void check_directory(const std::string& path, findings& into);

// All of them.  `directory` is of checkpoints, and may be empty.
findings examine(host machine, const std::string& directory);

// "22.05" of the Slurm whose headers the plugin was built with; empty where the file says nothing.
std::string plugin_release(const std::string& file);

}  // namespace varde::cli
