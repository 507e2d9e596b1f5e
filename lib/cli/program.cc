// The command line of `varde`.
#include "cli/program.h"

#include "cli/verbs.h"
#include "pack/text.h"
#include "varde.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <fmt/format.h>

namespace varde::cli {

namespace {

constexpr const char* footer =
    "DIR is a run's directory or a directory of runs; PATH also a generation (step-000000001200.r3) or a pack.\n"
    "Exit status: 0 good, 1 damaged, incomplete or refused, 2 wrong usage or not readable. More in varde(1).";

// What the command line asked for.
struct request {
    list_options list;
    verify_options verify;
    show_options show;
    report_options report;
    config_options config;
    topo_options topo;
    doctor_options doctor;
    run_options run;
    CLI::App* list_verb = nullptr;
    CLI::App* verify_verb = nullptr;
    CLI::App* show_verb = nullptr;
    CLI::App* report_verb = nullptr;
    CLI::App* config_verb = nullptr;
    CLI::App* topo_verb = nullptr;
    CLI::App* doctor_verb = nullptr;
    CLI::App* run_verb = nullptr;
};

void describe_topo(CLI::App& verb, topo_options& wanted) {
    const auto add = [&](const char* name, std::string& value, const char* type, const char* text) {
        return verb.add_option(name, value, text)->type_name(type);
    };
    add("--machine", wanted.machine, "FILE", "another machine, in hwloc's XML (lstopo FILE.xml)");
    CLI::Option* from = add("--from", wanted.from, "FILE", "a job's plan (/run/varde/JOBID/plan) instead of a new one");
    add("--memory", wanted.memory, "SIZE", "of the arena; default: a tenth of the machine's")->excludes(from);
    add("--gpus", wanted.gpus, "LIST", "the job's: numbers, PCI addresses or names, or 'none'; default: all")
        ->excludes(from);
    add("--cpus", wanted.cpus, "LIST", "the job's, such as 0-15,32")->excludes(from);
    add("--system-cpus", wanted.system_cpus, "LIST", "set aside for the system (Slurm's CpuSpecList)")->excludes(from);
    verb.add_option("--ranks", wanted.ranks, "of the job on this node")->type_name("N")->excludes(from);
    verb.add_option("--storage", wanted.storage, "interfaces or disks that carry checkpoints")
        ->type_name("NAME,...")
        ->delimiter(',')
        ->excludes(from);
    add("--svg", wanted.svg, "FILE", "draw into a file");
    verb.add_flag("--plan", wanted.plan, "print the plan as the agent reads it");
    verb.add_flag("--json", wanted.json, "print JSON");
}

void describe_report(CLI::App& program, request& wanted) {
    wanted.report_verb = program.add_subcommand("report", "tell what happened to a run, and what it cost");
    wanted.report_verb->add_option("DIR", wanted.report.path, "default: the current directory")->type_name("");
    auto* html = wanted.report_verb->add_option("--html", wanted.report.html, "draw it into a page")->type_name("FILE");
    wanted.report_verb->add_flag("--all", wanted.report.all, "also the older generations");
    wanted.report_verb->add_flag("--json", wanted.report.json, "print JSON")->excludes(html);
}

void describe_run(CLI::App& program, request& wanted) {
    wanted.run_verb = program.add_subcommand("run", "start a step of Slurm, and start it again when it fails");
    wanted.run_verb->add_option("--run", wanted.run.run, "the run's directory, where the program names it itself")
        ->type_name("DIR");
    wanted.run_verb->add_option("--file", wanted.run.file, "default: /etc/varde/varde.yaml")->type_name("FILE");
    wanted.run_verb->add_option("COMMAND", wanted.run.command, "after --: srun, its options, the program")
        ->type_name("")
        ->required();
}

void describe_site_verbs(CLI::App& program, request& wanted) {
    wanted.config_verb = program.add_subcommand("config", "print the configuration in force, and where it comes from");
    wanted.config_verb->add_option("--file", wanted.config.file, "default: /etc/varde/varde.yaml")->type_name("FILE");
    wanted.config_verb->add_option("--run-dir", wanted.config.run_directory, "default: /run/varde")->type_name("DIR");
    wanted.config_verb->add_flag("--job", wanted.config.job, "for this job: with its options and variables");
    wanted.config_verb->add_flag("--json", wanted.config.json, "print JSON");

    wanted.doctor_verb = program.add_subcommand("doctor", "tell what is right and wrong on this host");
    wanted.doctor_verb->add_option("--dir", wanted.doctor.directory, "of checkpoints: can it be written, and how")
        ->type_name("DIR");
    wanted.doctor_verb->add_option("--file", wanted.doctor.file, "default: /etc/varde/varde.yaml")->type_name("FILE");
    wanted.doctor_verb->add_option("--run-dir", wanted.doctor.run_directory, "default: /run/varde")->type_name("DIR");
    wanted.doctor_verb->add_option("--prefix", wanted.doctor.prefix, "where Varde is installed")->type_name("DIR");
    wanted.doctor_verb->add_option("--root", wanted.doctor.root, "an image of a host, in place of this one")
        ->type_name("DIR");
    wanted.doctor_verb->add_flag("--json", wanted.doctor.json, "print JSON");

    wanted.topo_verb =
        program.add_subcommand("topo", "draw this machine, and where a job's arena and writers go on it");
    describe_topo(*wanted.topo_verb, wanted.topo);
}

void describe(CLI::App& program, request& wanted) {
    program.set_version_flag("--version", "varde " VARDE_VERSION);
    program.require_subcommand(1);
    program.footer(footer);

    wanted.list_verb = program.add_subcommand("ls", "list the generations of a run, or of all runs in a directory");
    wanted.list_verb->add_option("DIR", wanted.list.path, "default: the current directory")->type_name("");
    wanted.list_verb->add_flag("--json", wanted.list.json, "print JSON");

    wanted.verify_verb = program.add_subcommand("verify", "read everything and check every checksum");
    wanted.verify_verb->add_option("PATH", wanted.verify.path, "default: the current directory")->type_name("");
    wanted.verify_verb->add_flag("--json", wanted.verify.json, "print JSON");

    wanted.show_verb = program.add_subcommand("show", "list the tensors of a pack or a generation");
    wanted.show_verb->add_option("PATH", wanted.show.path, "a pack or a generation")->type_name("")->required();
    wanted.show_verb->add_option("--rank", wanted.show.rank, "only this rank's")->type_name("N");
    wanted.show_verb->add_option("--name", wanted.show.name, "only tensors whose name matches this shell pattern")
        ->type_name("GLOB");
    wanted.show_verb->add_flag("--json", wanted.show.json, "print JSON");

    describe_report(program, wanted);
    describe_site_verbs(program, wanted);
    describe_run(program, wanted);
}

// Help and version are results, too; everything else that ends the parsing is wrong usage.
status end_of_parsing(const CLI::App& program, const CLI::ParseError& end, console to) {
    if (end.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
        const CLI::App* verb = program.get_subcommands().empty() ? &program : program.get_subcommands().front();
        const bool version = dynamic_cast<const CLI::CallForVersion*>(&end) != nullptr;
        fmt::print(to.out, "{}",
                   version ? std::string(end.what()) + "\n" : verb->help(verb == &program ? "" : "varde"));
        return status::good;
    }
    complain(
        to, fail(code::invalid, std::string("couldn't read the command line: ") + end.what() + "; try 'varde --help'"));
    return status::failed;
}

status carry_out(const request& wanted, console to) {
    if (wanted.list_verb->parsed()) return list(wanted.list, to);
    if (wanted.verify_verb->parsed()) return verify(wanted.verify, to);
    if (wanted.show_verb->parsed()) return show(wanted.show, to);
    if (wanted.report_verb->parsed()) return report(wanted.report, to);
    if (wanted.run_verb->parsed()) return static_cast<status>(run_step(wanted.run, to));  // the step's own
    if (wanted.doctor_verb->parsed()) return doctor(wanted.doctor, to);
    if (wanted.topo_verb->parsed()) return topo(wanted.topo, to);
    return show_config(wanted.config, to);
}

}  // namespace

// Names of files can hold anything, and most contexts have one.
void complain(console to, const failure& why) {
    constexpr size_t shown_bytes_max = 16384;
    fmt::print(to.err, "varde: {}\n", pack::escaped(why.context, shown_bytes_max));
}

int run(int argc, const char* const* argv, console to) try {
    CLI::App program{"Varde: looks at checkpoints of training jobs, and at what makes them.", "varde"};
    request wanted;
    describe(program, wanted);
    status outcome = status::failed;
    try {
        program.parse(argc, argv);
        outcome = carry_out(wanted, to);
    } catch (const CLI::ParseError& end) { outcome = end_of_parsing(program, end, to); }
    // A table that did not arrive (a full disk) is no success.
    if (std::fflush(to.out) != 0) {
        complain(to, os_error(errno, "couldn't write the output"));
        return static_cast<int>(status::failed);
    }
    return static_cast<int>(outcome);
} catch (const std::exception& why) {
    // {fmt}, CLI11 and the JSON library throw (also bad_alloc); it ends here.
    fmt::print(to.err, "varde: couldn't go on: {}\n", why.what());
    return static_cast<int>(status::failed);
}

}  // namespace varde::cli
