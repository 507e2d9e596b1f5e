// The verbs of `varde`, one file each, and what they share: how an outcome is told.
#pragma once

#include "base/result.h"
#include "cli/program.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace varde::cli {

struct list_options {
    std::string path = ".";
    bool json = false;
};
status list(const list_options& options, console to);

struct verify_options {
    std::string path = ".";
    bool json = false;
};
status verify(const verify_options& options, console to);

struct show_options {
    std::string path;
    bool json = false;
    std::optional<uint32_t> rank;
    std::string name;  // a pattern as the shell's; empty: all
};
status show(const show_options& options, console to);

struct report_options {
    std::string path = ".";
    std::string html;  // a file to write the page into; empty: text or JSON is printed
    bool json = false;
    bool all = false;  // also the older generations
};
status report(const report_options& options, console to);

struct config_options {
    std::string file;  // empty: /etc/varde/varde.yaml
    std::string run_directory = "/run/varde";
    bool job = false;  // what a job's own options and variables make of it
    bool json = false;
};
status show_config(const config_options& options, console to);

struct topo_options {
    std::string machine;  // a file of hwloc's XML; empty: this machine
    std::string memory;   // of the arena; empty: a tenth of the machine's
    std::string gpus;     // a list, or "none"; empty: not known
    std::string cpus;     // a list; empty: not known
    std::string system_cpus;
    std::optional<uint32_t> ranks;
    std::vector<std::string> storage;
    std::string from;  // a file with a plan; empty: one is made, and only then do the wishes above count
    std::string svg;   // a file to draw into
    bool plan = false;
    bool json = false;
};
status topo(const topo_options& options, console to);

struct doctor_options {
    std::string directory;  // of checkpoints; empty: none is looked at
    std::string file;       // empty: /etc/varde/varde.yaml
    std::string run_directory = "/run/varde";
    std::string prefix;  // empty: this program's
    std::string root;    // a folder that stands for "/"; empty: this host
    bool json = false;
};
status doctor(const doctor_options& options, console to);

struct run_options {
    std::string run;   // the run's directory; empty: as the ranks find it
    std::string file;  // empty: /etc/varde/varde.yaml
    std::vector<std::string> command;
};
// The exit status is the step's.
int run_step(const run_options& options, console to);

// "varde: TEXT" on the error stream.
void complain(console to, const failure& why);

}  // namespace varde::cli
