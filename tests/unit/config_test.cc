// varde.yaml: defaults, every key, and refusals that name file, line, key and reason.
#include "config/config.h"
#include "config/keys.h"

#include <criterion/criterion.h>
#include <fstream>
#include <span>
#include <sstream>

using namespace varde;

static config parsed(const char* text) {
    auto found = parse_config(text, "varde.yaml");
    cr_assert(found.has_value(), "%s", found.has_value() ? "" : found.error().context.c_str());
    return found->values;
}

static std::string file(const char* path) {
    std::ifstream in(path);
    cr_assert(in.good(), "run the tests from the top of the tree");
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
}

Test(config, nothing_means_defaults) {
    for (const char* text : {"", "\n", "# only a comment\n", "---\n", "agent:\n", "{}", "agent: {}\n"})
        cr_assert(parsed(text) == config{}, "'%s'", text);
}

Test(config, reads_every_key) {
    const config found = parsed(
        "agent:\n  memory: 64G\n  chunk: 8M\n  write_limit: 2G\n  pulse_ms: 250\n  silence_s: 5\n"
        "  mounts: /flash1  /flash/2\n"
        "failures:\n  node_mtbf_h: 500\n"
        "defaults:\n  keep: 7\n  max_restarts: 0\n  final_exits: 2,64-78\n  hang_timeout: 1h30m\n"
        "prolog:\n  ready_ms: 2000\n  probe_s: 3\nepilog:\n  drain_s: 0\ncontroller:\n  free_s: 60\n"
        "storage:\n  interface: ib0\n  policy: route\n  subnet: 10.1.0.0/16\n  gateway: 10.2.0.1\n"
        "  targets: /weka 10.1.0.5 10.1.0.6, /gpfs/a fd00::7\n  mtu_min: 9000\n  speed_min_mbps: 200000\n"
        "slurm:\n  bin_dir: /opt/slurm/bin\n");
    cr_assert(*found.memory_bytes == 64ULL << 30 && !found.memory_percent);
    cr_assert_eq(found.chunk_bytes, 8ULL << 20);
    cr_assert_eq(found.write_bytes_per_s, 2ULL << 30);
    cr_assert_eq(found.pulse_ms, 250);
    cr_assert_eq(found.silence_s, 5);
    cr_assert(found.mounts == (std::vector<std::string>{"/flash1", "/flash/2"}));
    cr_assert_eq(found.node_mtbf_h, 500);
    cr_assert_eq(found.keep, 7);
    cr_assert_eq(found.max_restarts, 0);
    cr_assert_eq(format_exit_codes(found.final_exits), "2,64-78");
    cr_assert_eq(found.hang_timeout_s, 5400);
    cr_assert_eq(found.ready_ms, 2000);
    cr_assert_eq(found.probe_s, 3);
    cr_assert_eq(found.drain_s, 0);
    cr_assert_eq(found.free_s, 60);
    cr_assert(found.storage.interface == "ib0" && found.storage.policy == storage_policy::route);
    cr_assert(format_prefix(*found.storage.subnet) == "10.1.0.0/16");
    cr_assert(format_address(*found.storage.gateway) == "10.2.0.1");
    const std::vector<storage_target> targets{{"/weka", {*parse_address("10.1.0.5"), *parse_address("10.1.0.6")}},
                                              {"/gpfs/a", {*parse_address("fd00::7")}}};
    cr_assert(found.storage.targets == targets);
    cr_assert(found.storage.mtu_min_bytes == 9000 && found.storage.speed_min_mbps == 200'000);
    cr_assert(found.bin_dir == "/opt/slurm/bin");
    cr_assert(*parsed("agent: {memory: 25%}").memory_percent == 25);
}

Test(config, a_value_is_shown_as_the_file_writes_it) {
    for (const config_key& key : config_keys())
        for (const std::string& text : {key.value.show(config{}), std::string(key.example)}) {
            const std::string page = std::string(key.section) + ":\n  " + key.name + ": " + text + "\n";
            cr_assert(key.value.show(parsed(page.c_str())) == text, "%s", page.c_str());
        }
    cr_assert(config_keys()[0].value.show(parsed("agent: {memory: 1536M}")) == "1536M");
}

Test(config, a_value_is_found_with_its_line) {
    const auto found = parse_config("# site\nfailures:\n  node_mtbf_h: 5\nagent:\n\n  memory: 1G\n", "varde.yaml");
    cr_assert(found.has_value());
    for (size_t index = 0; index < config_keys().size(); index++) {
        const std::string name = full_name(config_keys()[index]);
        const uint32_t line = name == "agent.memory" ? 6 : name == "failures.node_mtbf_h" ? 3 : 0;
        cr_assert_eq(found->lines[index], line, "%s: %u", name.c_str(), found->lines[index]);
    }
}

Test(config, tabs_elsewhere_are_no_harm) {
    cr_assert_eq(parsed("\t\nagent:\t# site\n  pulse_ms:\t250\n").pulse_ms, 250);
}

Test(config, the_file_we_ship_is_the_defaults) {
    const std::string shipped = file("conf/varde.yaml");
    cr_assert(parsed(shipped.c_str()) == config{});
    // With every '#' in front of a key taken away it must still be right, and still the defaults.
    std::string uncommented;
    std::istringstream lines(shipped);
    size_t keys = 0;
    for (std::string line; std::getline(lines, line);) {
        const size_t mark = line.find('#');
        const bool key = mark != std::string::npos && mark + 1 < line.size() && line[mark + 1] != ' ';
        if (key) line.erase(mark, 1);
        keys += key;
        uncommented += line + "\n";
    }
    cr_assert_eq(keys, config_keys().size() + config_sections().size(), "the file names each key and section: %zu",
                 keys);
    cr_assert(parsed(uncommented.c_str()) == config{});
}

struct refusal {
    const char* text;
    const char* line;
    const char* parts[3];
};

static void expect_refusals(std::span<const refusal> bad) {
    for (const auto& each : bad) {
        auto found = parse_config(each.text, "varde.yaml");
        cr_assert(!found.has_value(), "taken: %s", each.text);
        const std::string& text = found.error().context;
        cr_assert(found.error().what == code::invalid);
        cr_assert(text.find(each.line) != std::string::npos, "'%s' lacks '%s' for:\n%s", text.c_str(), each.line,
                  each.text);
        for (const char* part : each.parts)
            cr_assert(text.find(part) != std::string::npos, "'%s' lacks '%s'", text.c_str(), part);
        cr_assert_eq(text.find('\n'), std::string::npos);
    }
}

Test(config, a_refusal_names_file_line_key_and_reason) {
    static const refusal bad[] = {
        {"agent:\n  memry: 1G\n", "varde.yaml:2'", {"agent has no key 'memry'", "memory, huge_pages, cpus, chunk", ""}},
        {"agnt:\n  memory: 1G\n", "varde.yaml:1'", {"no section 'agnt'", "agent, failures, defaults", ""}},
        {"agent:\n  memory: 0%\n", "varde.yaml:2'", {"agent.memory is '0%'", "1% to 90%", "memory: 10%"}},
        {"agent:\n  memory: lots\n", "varde.yaml:2'", {"agent.memory is 'lots'", "digit", "memory: 10%"}},
        {"agent:\n  memory:\n", "varde.yaml:2'", {"agent.memory is ''", "empty", "memory: 10%"}},
        {"agent:\n  memory: [1G, 2G]\n", "varde.yaml:2'", {"agent.memory", "more than one value", "memory: 10%"}},
        {"agent:\n  chunk: 3M\n", "varde.yaml:2'", {"agent.chunk is '3M'", "power of two", "chunk: 4M"}},
        {"agent:\n  chunk: 128M\n", "varde.yaml:2'", {"agent.chunk is '128M'", "64M", "chunk: 4M"}},
        {"agent:\n  chunk: 0\n", "varde.yaml:2'", {"agent.chunk is '0'", "power of two", "chunk: 4M"}},
        {"agent:\n  write_limit: 5K\n",
         "varde.yaml:2'",
         {"agent.write_limit is '5K'", "less than 1M", "write_limit: 2G"}},
        {"agent:\n\n  pulse_ms: 9\n", "varde.yaml:3'", {"agent.pulse_ms is '9'", "smaller than 10", "pulse_ms: 1000"}},
        {"agent:\n  pulse_ms: -1\n", "varde.yaml:2'", {"agent.pulse_ms is '-1'", "digit", "pulse_ms: 1000"}},
        {"agent:\n  silence_s: 1h\n", "varde.yaml:2'", {"agent.silence_s is '1h'", "not a digit", "silence_s: 30"}},
        {"agent:\n  silence_s: 99999\n", "varde.yaml:2'", {"agent.silence_s", "larger than 3600", "silence_s: 30"}},
        {"defaults:\n  keep: 0\n", "varde.yaml:2'", {"defaults.keep is '0'", "smaller than 1", "keep: 3"}},
        {"slurm:\n  bin_dir: bin\n", "varde.yaml:2'", {"slurm.bin_dir is 'bin'", "absolute", "bin_dir: /usr/bin"}},
        {"prolog:\n  probe_s: 9\n", "varde.yaml:2'", {"prolog.probe_s", "larger than 8", "probe_s: 5"}},
        {"agent:\n  chunk: 4M\n  chunk: 8M\n", "varde.yaml:3'", {"'chunk' comes twice", "", ""}},
        {"agent:\n  chunk: 4M\nagent:\n  chunk: 8M\n", "varde.yaml:3'", {"'agent' comes twice", "", ""}},
        {"agent: yes\n", "varde.yaml:1'", {"agent must hold", "", ""}},
        {"- a\n- b\n", "varde.yaml:1'", {"sections", "", ""}},
        {"agent:\n  [a]: 1\n", "varde.yaml:2'", {"single word", "", ""}},
        {"agent:\n  memory: {a: 1}\n", "varde.yaml:2'", {"agent.memory has more than one value", "64G", "memory: 10%"}},
        {"agent:\n  chunk: 4 M\n", "varde.yaml:2'", {"agent.chunk is '4 M'", "not a unit", "chunk: 4M"}},
        {"agent:\n  write_limit: 2G/s\n", "varde.yaml:2'", {"agent.write_limit", "'G/s' is not a unit", "per second"}},
        {"agent:\n  pulse_ms: 1.5\n",
         "varde.yaml:2'",
         {"agent.pulse_ms is '1.5'", "not a digit", "milliseconds, 10 to"}},
        {"agent:\n  pulse_ms: true\n", "varde.yaml:2'", {"agent.pulse_ms is 'true'", "digit", "milliseconds"}},
        {"agent:\n  silence_s: ~\n", "varde.yaml:2'", {"agent.silence_s is ''", "empty", "seconds, 1 to 3600"}},
        {"agent:\n\tchunk: 4M\n", "varde.yaml:2'", {"indented by a tab", "", ""}},
        {"agent:\n  chunk: 4M\n  \tmemory: 1G\n", "varde.yaml:3'", {"indented by a tab", "", ""}},
        {"#\n\n\tagent: {}", "varde.yaml:3'", {"indented by a tab", "", ""}},
        {"agent:\n  - chunk: 4M\n", "varde.yaml:2'", {"agent must hold", "", ""}},
        {"agent:\n  chunk=4M\n", "varde.yaml:2'", {"agent must hold", "", ""}},
        {"agent:\n   chunk: 4M\n  memory: 1G\n", "varde.yaml:3'", {"", "", ""}},
        {"agent: {chunk: 4M\n", "varde.yaml:2'", {"", "", ""}},
        {"agent: *unknown\n", "varde.yaml:1'", {"", "", ""}},
        {",\nagent: {chunk: 4M}\n", "varde.yaml'", {"a ',' where none belongs", "", ""}},
        {"#\n,: [[[[[{{{{{x", "varde.yaml:2'", {"brackets within brackets", "more than 8 deep", ""}},
        {"---\nagent: {}\n---\nagent: {}\n", "varde.yaml'", {"more than one document", "", ""}},
    };
    expect_refusals(bad);
}

Test(config, a_refusal_of_the_storage_network_says_what_is_right) {
    static const refusal bad[] = {
        {"storage: {interface: ../x}\n", "varde.yaml:1'", {"storage.interface", "no name", "interface: ib0"}},
        {"storage: {policy: force}\n", "varde.yaml:1'", {"storage.policy is 'force'", "'require'", "policy: check"}},
        {"storage: {policy: require}\n", "varde.yaml'", {"storage.policy needs storage.interface", "", ""}},
        {"storage: {interface: ib0, policy: route}\n", "varde.yaml'", {"'route' needs storage.subnet", "", ""}},
        {"storage: {subnet: 0.0.0.0/0}\n", "varde.yaml'", {"'0.0.0.0/0' is more than a storage network", "", ""}},
        {"storage: {subnet: 10.1.0.0}\n", "varde.yaml:1'", {"storage.subnet", "no length", "subnet: 10.1.0.0/16"}},
        {"storage: {gateway: router}\n", "varde.yaml:1'", {"storage.gateway", "no IP address", "gateway: 10.1.0.1"}},
        {"storage: {targets: \"weka 10.1.0.5\"}\n", "varde.yaml:1'", {"storage.targets", "absolute path", ""}},
        {"storage: {targets: \"/weka\"}\n", "varde.yaml:1'", {"storage.targets", "has no addresses", ""}},
        {"storage: {targets: \"/weka a.b\"}\n", "varde.yaml:1'", {"storage.targets", "'a.b' is no IP address", ""}},
        {"storage: {mtu_min: big}\n", "varde.yaml:1'", {"storage.mtu_min", "digit", "mtu_min: 9000"}},
    };
    expect_refusals(bad);
}

Test(config, arena_takes_the_jobs_wish_first) {
    config site;
    cr_assert_eq(arena_bytes(site, 5, {}, 1000), 5);
    cr_assert_eq(arena_bytes(site, {}, 50, 1000), 500);
    cr_assert_eq(arena_bytes(site, {}, {}, 1000), 100);
    site = parsed("agent: {memory: 2M}");
    cr_assert_eq(arena_bytes(site, {}, {}, 1000), 2ULL << 20);
}

Test(config, a_mount_is_an_absolute_path_that_comes_once) {
    cr_assert(parsed("agent: {mounts: \"\"}").mounts.empty());
    const struct {
        const char* text;
        const char* reason;
    } bad[] = {{"/a b", "'b' is not the absolute path"},
               {"/a/../b", "'/a/../b' is not the absolute path"},
               {"/a/", "'/a/' is not the absolute path"},
               {"/", "'/' is not the absolute path"},
               {"/a /b /a", "'/a' comes twice"}};
    for (const auto& each : bad) {
        const auto found = parse_config(std::string("agent:\n  mounts: ") + each.text + "\n", "varde.yaml");
        cr_assert(!found.has_value(), "%s", each.text);
        cr_assert(found.error().context.find(each.reason) != std::string::npos, "%s", found.error().context.c_str());
        cr_assert(found.error().context.find("for example 'mounts: /flash1 /flash2'") != std::string::npos);
    }
}
