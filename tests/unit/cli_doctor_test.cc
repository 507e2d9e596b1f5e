// `varde doctor` on a host that is a folder: all right, and each thing wrong by itself.
#include "cli/doctor.h"
#include "cli_support.h"
#include "varde.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

using namespace cli_test;
using cli::finding;
using cli::findings;
using cli::host;
using cli::verdict;
using store_test::temporary_directory;

namespace {

constexpr cli::system_calls right_calls{[] { return 0; }, [] { return true; }, [] { return UINT64_MAX; }, 5000};

// A node where nothing is wrong. The plugin is the one that is built beside this test.
struct node {
    node() : root(directory.path()) {
        ::unsetenv("SLURM_CONF");
        const std::string built =
            std::filesystem::read_symlink("/proc/self/exe").parent_path().string() + "/../../spank_varde.so";
        release = cli::plugin_release(built);
        cr_assert(!release.empty(), "no release in %s", built.c_str());
        std::filesystem::create_directories(root + "/usr/lib/varde");
        std::filesystem::copy_file(built, root + "/usr/lib/varde/spank_varde.so");
        std::filesystem::create_symlink("libvarde.so." VARDE_VERSION, root + "/usr/lib/libvarde.so.0");
        for (const char* hook : {"prolog", "epilog", "controller"})
            program(std::string("/usr/libexec/varde/varde-") + hook, "exit 0");
        program("/usr/libexec/varde/varde-agent", "echo varde-agent " VARDE_VERSION);
        program("/usr/bin/scontrol", "cat " + root + "/shown");
        program("/usr/bin/sbatch", "echo '  --ckpt-interval=TIME'");
        write("/proc/100/comm", "slurmd\n");
        write("/proc/100/limits", "Max locked memory         unlimited            unlimited            bytes\n");
        write("/proc/self/mountinfo", "30 25 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n");
        write("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n");
        write("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "always within_size [advise] never deny force\n");
        write("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "64\n");
        write("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "60\n");
        write("/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
        write("/sys/class/net/stor0/operstate", "up\n");
        write("/sys/class/net/stor0/mtu", "9000\n");
        write("/sys/class/net/stor0/speed", "200000\n");
        write("/etc/varde/varde.yaml",
              "agent: {huge_pages: 2M}\n"
              "storage: {interface: stor0, mtu_min: 9000, speed_min_mbps: 100000}\n");
        write("/etc/slurm/plugstack.conf", "# ours\noptional /usr/lib/varde/spank_varde.so dir=/scratch\n");
        write("/run/varde/7/state.json", R"({"job":7,"state":"ready","reason":"","agent_pid":4711})");
        write("/proc/4711/comm", "varde-agent\n");
        show({});
    }
    // Slurm's settings, with these in place of the right ones; an empty value takes one away.
    void show(std::map<std::string, std::string> other) const {
        std::map<std::string, std::string> all{{"SLURM_VERSION", release + ".8"},
                                               {"Prolog", "/usr/libexec/varde/varde-prolog"},
                                               {"Epilog", "/usr/libexec/varde/varde-epilog"},
                                               {"EpilogSlurmctld", "/usr/libexec/varde/varde-controller"},
                                               {"PrologFlags", "Alloc,DeferBatch"},
                                               {"PrologEpilogTimeout", "65534"},
                                               {"JobRequeue", "1"},
                                               {"PlugStackConfig", "/etc/slurm/plugstack.conf"},
                                               {"SLURM_CONF", "/etc/slurm/slurm.conf"}};
        for (auto& [key, value] : other) all[key] = value;
        std::string text = "Configuration data as of 2026-01-01T00:00:00\n";
        for (auto& [key, value] : all) text += key + "  = " + (value.empty() ? "(null)" : value) + "\n";
        write("/shown", text);
    }
    void write(const std::string& path, const std::string& text) const {
        std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
        std::ofstream(root + path) << text;
    }
    void program(const std::string& path, const std::string& body) const {
        write(path, "#!/bin/sh\n" + body + "\n");
        std::filesystem::permissions(root + path, std::filesystem::perms(0755));
    }
    void remove(const std::string& path) const { std::filesystem::remove_all(root + path); }
    findings examined() const {
        host machine;
        machine.root = root;
        machine.prefix = "/usr";
        machine.calls = calls;
        return examine(machine, "");
    }
    temporary_directory directory;
    std::string root;
    std::string release;
    cli::system_calls calls = right_calls;
};

std::string text_of(const findings& all) {
    std::string text;
    for (const finding& each : all)
        text += std::to_string(static_cast<int>(each.is)) + " " + each.what + " | " + each.found + " | " + each.change +
                "\n";
    return text;
}

struct injected {
    const char* name;
    std::function<void(node&)> make;
    verdict is;
    const char* what;
    const char* found;
    const char* change;
};

void expect_finding(const injected& fault) {
    node made;
    fault.make(made);
    const findings all = made.examined();
    for (const finding& each : all) {
        if (each.is != fault.is || each.what != fault.what || each.found.find(fault.found) == std::string::npos)
            continue;
        cr_expect(each.change.find(fault.change) != std::string::npos, "%s: '%s' lacks '%s'", fault.name,
                  each.change.c_str(), fault.change);
        cr_expect(!each.change.empty(), "%s: nothing to change", fault.name);
        return;
    }
    cr_expect(false, "%s is not found in:\n%s", fault.name, text_of(all).c_str());
}

}  // namespace

Test(cli_doctor, a_host_where_all_is_right) {
    const node made;
    const findings all = made.examined();
    for (const finding& each : all)
        cr_expect(each.is == verdict::ok and each.change.empty(), "%s", text_of(all).c_str());
    cr_expect_geq(all.size(), 20U, "%s", text_of(all).c_str());
    expect_contains(text_of(all), "node (slurmd runs)");
    expect_contains(text_of(all), "60 of 64 free");
}

Test(cli_doctor, finds_what_is_wrong_in_slurms_settings) {
    const injected faults[] = {
        {"no flags",
         [](node& n) {
             n.show({{"PrologFlags", ""}});
         },
         verdict::wrong, "PrologFlags", "not set", "/etc/slurm/slurm.conf: PrologFlags=Alloc,DeferBatch"},
        {"one flag",
         [](node& n) {
             n.show({{"PrologFlags", "Contain,X11"}});
         },
         verdict::wrong, "PrologFlags", "Contain,X11", "PrologFlags=Contain,X11,DeferBatch"},
        {"no prolog",
         [](node& n) {
             n.show({{"Prolog", ""}});
         },
         verdict::wrong, "Prolog", "not set", "slurm.conf: Prolog=/usr/libexec/varde/varde-prolog"},
        {"prolog is gone", [](node& n) { n.remove("/usr/libexec/varde/varde-prolog"); }, verdict::wrong, "Prolog",
         "no such file", "Prolog=/usr/libexec/varde/varde-prolog"},
        {"a site's prolog that does not call ours",
         [](node& n) {
             n.program("/etc/slurm/prolog.sh", "exit 0");
             n.show({{"Prolog", "/etc/slurm/prolog.sh"}});
         },
         verdict::wrong, "Prolog", "does not call varde-prolog", "or call it there"},
        {"epilog of everybody's",
         [](node& n) {
             std::filesystem::permissions(n.root + "/usr/libexec/varde/varde-epilog", std::filesystem::perms(0777));
         },
         verdict::wrong, "Epilog", "everybody may write it", "Epilog=/usr/libexec/varde/varde-epilog"},
        {"no controller hook",
         [](node& n) {
             n.show({{"EpilogSlurmctld", ""}});
         },
         verdict::wrong, "EpilogSlurmctld", "not set", "EpilogSlurmctld=/usr/libexec/varde/varde-controller"},
        {"an epilog that is cut off",
         [](node& n) {
             n.show({{"PrologEpilogTimeout", "30"}});
         },
         verdict::wrong, "PrologEpilogTimeout", "epilog.drain_s is 30 s", "PrologEpilogTimeout=60"},
        {"scontrol fails", [](node& n) { n.program("/usr/bin/scontrol", "echo no controller; exit 1"); },
         verdict::wrong, "scontrol", "no controller", "/etc/varde/varde.yaml: slurm: {bin_dir:"},
        {"scontrol fails, and slurm.conf is there",
         [](node& n) {
             n.program("/usr/bin/scontrol", "exit 1");
             n.write("/etc/slurm/slurm.conf", "PrologFlags=DeferBatch # Alloc\n");
         },
         verdict::wrong, "PrologFlags", "DeferBatch", "PrologFlags=DeferBatch,Alloc"},
        {"scontrol hangs",
         [](node& n) {
             n.program("/usr/bin/scontrol", "exec sleep 60");
             n.calls.timeout_ms = 200;
         },
         verdict::wrong, "scontrol", "scontrol", "start slurmctld"},
    };
    for (const injected& fault : faults) expect_finding(fault);
}

Test(cli_doctor, finds_what_is_wrong_with_the_plugin) {
    const injected faults[] = {
        {"no line", [](node& n) { n.write("/etc/slurm/plugstack.conf", "optional /usr/lib/other.so\n"); },
         verdict::wrong, "plugstack.conf", "has no line", "plugstack.conf: optional /usr/lib/varde/spank_varde.so"},
        {"no file", [](node& n) { n.remove("/etc/slurm/plugstack.conf"); }, verdict::wrong, "plugstack.conf",
         "has no line", "optional /usr/lib/varde/spank_varde.so"},
        {"required", [](node& n) { n.write("/etc/slurm/plugstack.conf", "required\t/usr/lib/varde/spank_varde.so\n"); },
         verdict::warn, "plugstack.conf", "keeps all from submitting", "optional /usr/lib/varde/spank_varde.so"},
        {"plugin is gone", [](node& n) { n.remove("/usr/lib/varde/spank_varde.so"); }, verdict::wrong, "plugin",
         "is missing", "optional /usr/lib/varde/spank_varde.so"},
        {"another release",
         [](node& n) {
             n.show({{"SLURM_VERSION", "19.05.1"}});
         },
         verdict::wrong, "plugin", "and 19.05 runs", "make SLURM_PREFIX=/usr"},
        {"no plugin",
         [](node& n) {
             n.write("/usr/lib/varde/spank_varde.so",
                     "\x7f"
                     "ELF");
         },
         verdict::wrong, "plugin", "is no plugin", "install Varde again"},
        {"not loaded", [](node& n) { n.program("/usr/bin/sbatch", "echo nothing"); }, verdict::wrong, "sbatch --help",
         "does not know --ckpt-interval", "plugstack.conf: optional"},
    };
    for (const injected& fault : faults) expect_finding(fault);
}

Test(cli_doctor, a_line_of_an_included_file_and_a_sites_own_prolog_will_do) {
    const node made;
    made.write("/etc/slurm/plugstack.conf", "include plugstack.conf.d/*.conf\n");
    made.write("/etc/slurm/plugstack.conf.d/varde.conf", "optional /usr/lib/varde/spank_varde.so\n");
    made.program("/etc/slurm/prolog.sh", "exec /usr/libexec/varde/varde-prolog");
    made.show({{"Prolog", "/etc/slurm/prolog.sh"}});
    for (const finding& each : made.examined()) cr_expect(each.is == verdict::ok, "%s", each.found.c_str());
}

Test(cli_doctor, finds_what_is_wrong_with_varde_and_its_jobs) {
    const injected faults[] = {
        {"another agent", [](node& n) { n.program("/usr/libexec/varde/varde-agent", "echo varde-agent 0.0.9"); },
         verdict::wrong, "agent", "0.0.9, and this program is " VARDE_VERSION, "install one Varde"},
        {"no library", [](node& n) { n.remove("/usr/lib/libvarde.so.0"); }, verdict::wrong, "library",
         "not found below /usr", "install one Varde"},
        {"another library",
         [](node& n) {
             n.remove("/usr/lib/libvarde.so.0");
             std::filesystem::create_symlink("libvarde.so.9.9", n.root + "/usr/lib/libvarde.so.0");
         },
         verdict::wrong, "library", "9.9", "install one Varde"},
        {"a wrong key", [](node& n) { n.write("/etc/varde/varde.yaml", "agent:\n  chunk: 3M\n"); }, verdict::wrong,
         "varde.yaml", "varde.yaml:2': agent.chunk is '3M'", "as the message says"},
        {"others may write it",
         [](node& n) { std::filesystem::permissions(n.root + "/etc/varde/varde.yaml", std::filesystem::perms(0666)); },
         verdict::wrong, "varde.yaml", "chmod go-w", "as the message says"},
        {"a degraded job",
         [](node& n) { n.write("/run/varde/7/state.json", R"({"state":"degraded","reason":"no memory"})"); },
         verdict::warn, "job 7", "degraded: no memory", "see the reason"},
        {"an agent that has gone", [](node& n) { n.remove("/proc/4711"); }, verdict::warn, "job 7",
         "process 4711) has gone", "SLURM_JOB_ID=7 /usr/libexec/varde/varde-epilog"},
        {"a damaged state", [](node& n) { n.write("/run/varde/7/state.json", "{"); }, verdict::warn, "job 7",
         "cannot be read", "varde-epilog"},
        {"a directory of everybody's",
         [](node& n) { std::filesystem::permissions(n.root + "/run/varde", std::filesystem::perms(0777)); },
         verdict::wrong, "/run/varde", "others than root may write it", "rm -r /run/varde"},
    };
    for (const injected& fault : faults) expect_finding(fault);
}

Test(cli_doctor, finds_what_is_wrong_with_the_machine) {
    const injected faults[] = {
        {"little to lock",
         [](node& n) { n.write("/proc/100/limits", "Max locked memory         65536      8388608       bytes\n"); },
         verdict::warn, "locked memory", "slurmd: 8 MiB", "LimitMEMLOCK=infinity"},
        {"no large pages",
         [](node& n) {
             n.write("/sys/kernel/mm/transparent_hugepage/shmem_enabled",
                     "always within_size advise [never] deny force\n");
         },
         verdict::warn, "large pages for the arena", "[never]", "transparent_hugepage/shmem_enabled - - - - advise"},
        {"no huge pages", [](node& n) { n.remove("/sys/kernel/mm/hugepages/hugepages-2048kB"); }, verdict::wrong,
         "huge pages of 2 MiB", "none of this size", "huge_pages: off"},
        {"no memory controller", [](node& n) { n.write("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n"); },
         verdict::warn, "control groups", "no memory controller", "cgroup_enable=memory"},
        {"a storage interface that is not there", [](node& n) { n.remove("/sys/class/net/stor0"); }, verdict::wrong,
         "storage interface", "stor0 is not there", "varde.yaml: storage: {interface:"},
        {"a link that is down", [](node& n) { n.write("/sys/class/net/stor0/operstate", "down\n"); }, verdict::wrong,
         "storage interface", "stor0 is down", "ip link set stor0 up"},
        {"short packets", [](node& n) { n.write("/sys/class/net/stor0/mtu", "1500\n"); }, verdict::wrong,
         "storage interface", "an MTU of 1500", "ip link set stor0 mtu 9000"},
        {"a slow link", [](node& n) { n.write("/sys/class/net/stor0/speed", "1000\n"); }, verdict::wrong,
         "storage interface", "runs at 1000 Mbit/s", "speed_min_mbps: 1000"},
        {"an old kernel", [](node& n) { n.write("/proc/sys/kernel/osrelease", "4.18.0-553.el8\n"); }, verdict::warn,
         "kernel", "4.18", "5.9 or later"},
        {"io_uring is disabled",
         [](node& n) {
             n.write("/proc/sys/kernel/io_uring_disabled", "2\n");
             n.calls.try_ring = [] { return EPERM; };
         },
         verdict::warn, "io_uring", "kernel.io_uring_disabled=2", "sysctl.d/varde.conf: kernel.io_uring_disabled=0"},
        {"io_uring is filtered", [](node& n) { n.calls.try_ring = [] { return ENOSYS; }; }, verdict::warn, "io_uring",
         "not implemented", "seccomp"},
        {"a clock alone", [](node& n) { n.calls.clock_in_step = [] { return false; }; }, verdict::warn, "clock",
         "by nobody", "chrony"},
    };
    for (const injected& fault : faults) expect_finding(fault);
}

Test(cli_doctor, a_login_host_is_asked_for_less) {
    node made;
    made.remove("/proc/100");
    made.remove("/usr/libexec/varde/varde-prolog");
    made.calls.lock_limit = [] { return uint64_t{1}; };
    made.show({{"Epilog", "/etc/slurm/nodes.only.sh"}});
    const findings all = made.examined();
    for (const finding& each : all) cr_expect(each.is == verdict::ok, "%s", text_of(all).c_str());
    expect_contains(text_of(all), "login host");
    expect_contains(text_of(all), "0 Epilog | /etc/slurm/nodes.only.sh, not on this host");
    cr_expect(text_of(all).find("locked memory") == std::string::npos);

    made.write("/proc/50/comm", "slurmctld\n");
    made.remove("/usr/libexec/varde/varde-controller");
    expect_contains(text_of(made.examined()), "2 EpilogSlurmctld | /usr/libexec/varde/varde-controller: there is no");
}

// A user's process calls itself slurmd, and beside it stands what root is not to run.
Test(cli_doctor, no_program_is_run_that_users_can_write) {
    node made;
    made.program("/opt/slurm/bin/scontrol", "touch " + made.root + "/ran; cat " + made.root + "/shown");
    std::filesystem::create_symlink("/opt/slurm/sbin/slurmd", made.root + "/proc/100/exe");
    made.examined();
    cr_expect(std::filesystem::remove(made.root + "/ran"), "in a place of root's alone it is the right one");
    for (const char* open : {"/opt", "/opt/slurm", "/opt/slurm/bin", "/opt/slurm/bin/scontrol"}) {
        std::filesystem::permissions(made.root + open, std::filesystem::perms(0777));
        made.examined();
        cr_expect(!std::filesystem::exists(made.root + "/ran"), "%s", open);
        std::filesystem::permissions(made.root + open, std::filesystem::perms(0755));
    }
}

Test(cli_doctor, a_directory_is_tried) {
    const temporary_directory place;
    findings all;
    check_directory(place.path(), all);
    check_directory(place.path() + "/none", all);
    cr_assert_eq(all.size(), 2);
    cr_expect(all[0].is != verdict::wrong, "%s", all[0].found.c_str());
    expect_contains(all[0].found, "free");
    cr_expect(all[1].is == verdict::wrong);
    expect_contains(all[1].found, "No such file");
    cr_expect(std::filesystem::is_empty(place.path()), "nothing is left in it");
    if (::geteuid() == 0) return;  // who may write everywhere
    std::filesystem::permissions(place.path(), std::filesystem::perms(0555));
    check_directory(place.path(), all);
    cr_expect(all[2].is == verdict::wrong);
    expect_contains(all[2].found, "Permission denied");
}

Test(cli_doctor, the_program_prints_and_ends_with_one_where_something_is_wrong) {
    const node made;
    const std::vector<std::string> arguments{"doctor", "--root", made.root, "--prefix", "/usr"};
    const outcome good = cli_test::varde_run(arguments);
    cr_expect_eq(good.status, 0, "%s", good.out.c_str());
    expect_contains(good.out, "\nok     PrologFlags ");
    made.show({{"PrologFlags", ""}});
    const outcome bad = cli_test::varde_run(arguments);
    cr_expect_eq(bad.status, 1);
    expect_contains(bad.out, "\nwrong  PrologFlags ");
    expect_contains(bad.out, "not set  ->  /etc/slurm/slurm.conf: PrologFlags=Alloc,DeferBatch");
    auto with_json = arguments;
    with_json.emplace_back("--json");
    const auto shown = nlohmann::json::parse(cli_test::varde_run(with_json).out);
    cr_expect(shown["good"] == false);
    bool found = false;
    for (const auto& each : shown["checks"])
        found = found or (each["what"] == "PrologFlags" and each["verdict"] == "wrong");
    cr_expect(found);
}
