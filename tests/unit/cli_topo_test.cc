// `varde topo` run whole on the machines of tests/topo, and its pictures of machines that are made up.
#include "cli_support.h"

#include "base/fields.h"
#include "cli/svg.h"
#include "cli/table.h"
#include "cli/topo.h"

#include <filesystem>
#include <fstream>

using namespace cli_test;
using store_test::temporary_directory;

namespace {

std::vector<std::string> of_hgx(std::vector<std::string> more) {
    std::vector<std::string> arguments{"topo",  "--machine", "tests/topo/hgx.xml", "--memory", "256G", "--cpus",
                                       "4-103", "--storage", "enp41s0f0np0",       "--gpus",   "0,1,4"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
}

size_t count_of(const std::string& text, const std::string& word) {
    size_t count = 0;
    for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += word.size()) count++;
    return count;
}

std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

Test(cli_topo, draws_machine_and_plan) {
    const outcome got = varde_run(of_hgx({}));
    cr_expect(got.status == 0 && got.err.empty(), "%s", got.err.c_str());
    for (const char* words :
         {"HGX H100: 224 CPUs, 2 TiB in 2 NUMA nodes, 8 GPUs, 9 network interfaces, 2 disks\narena of 256 GiB\n",
          "┌ NUMA node 0 ─", "│ CPUs        0-55,112-167 ", "│ the job's   4-55 ", "│ writers     0-3,112-167  ◀ ",
          "│ memory      1 TiB ", "│ arena       ████████████████░░░░░░░░  170.6 GiB: 2 of the job's 3 GPUs ",
          "│ GPU 1       0000:43:00.0  nvml1                 H100 SXM5 80GB             ◀ slabs on node 0 │\n",
          "│ GPU 2       0000:52:00.0  nvml2                 H100 SXM5 80GB             not the job's     │\n",
          "│ network     0000:29:00.0  enp41s0f0np0, mlx5_8  ConnectX-7                 ◀ storage         │\n",
          "│ network     0000:9a:00.0  ibp154s0, mlx5_4      ConnectX-7                 beside GPU 4      │\n",
          "storage enp41s0f0np0: it is named as storage, and at node 0\n",
          "writers: near 'enp41s0f0np0', not the job's\n"})
        expect_contains(got.out, words);
    // A box has straight sides.
    size_t width = 0;
    for (size_t at = got.out.find("┌"); at < got.out.find("storage enp");) {
        const size_t end = got.out.find('\n', at);
        size_t columns = 0;
        for (; at < end; at++) columns += (static_cast<unsigned char>(got.out[at]) & 0xC0) != 0x80 ? 1 : 0;
        cr_expect(width == 0 || width == columns, "a line of %zu columns below one of %zu", columns, width);
        width = columns;
        at = end + 1;
    }
}

Test(cli_topo, a_long_list_of_cpus_goes_on_in_the_next_line) {
    cli::topo_view view;
    topo::cpu_set turns;
    for (size_t cpu = 1; cpu < 256; cpu += 2) turns.set(cpu);
    view.machine.allowed = turns;
    view.machine.nodes = {{.index = 0, .bytes = 1ULL << 30, .cpus = turns}};
    view.plan = need(topo::make_plan(view.machine, {}));
    const std::string text = cli::topo_text(view);
    expect_contains(text, "│ CPUs        1,3,5,");
    expect_contains(text, ",253,255 ");
    for (const std::string_view line : split(text, '\n')) cr_expect(cli::text_width(std::string(line)) <= 120);
}

Test(cli_topo, memory_of_gpus_and_unknown_places_are_drawn) {
    const outcome grace = varde_run({"topo", "--machine", "tests/topo/grace.xml"});
    expect_contains(grace.out, "96 GiB of GPU 2, node 20: never part of the arena");
    const outcome nowhere = varde_run({"topo", "--machine", "tests/topo/no_locality.xml"});
    expect_contains(nowhere.out, "┌ place not known ─");
    expect_contains(nowhere.out, "◀ slabs on node 1");
    const outcome cgroup = varde_run({"topo", "--machine", "tests/topo/cgroup.xml"});
    expect_contains(cgroup.out, "32 CPUs (24 not allowed)");
    expect_contains(cgroup.out, "│ not allowed 0-3,8-19,24-31");
}

Test(cli_topo, prints_the_plan_as_it_is_read) {
    const outcome got = varde_run(of_hgx({"--plan", "--system-cpus", "0,1"}));
    const auto read = topo::parse_plan(got.out);
    cr_assert(read.has_value(), "%s", got.out.c_str());
    cr_expect(read->arena_bytes == 256ULL << 30 && topo::format_cpus(read->writers) == "0-1");
    const outcome ranks = varde_run({"topo", "--machine", "tests/topo/no_gpu.xml", "--ranks", "1", "--plan"});
    expect_contains(ranks.out, "because 1 of the job's 1 ranks");
    const outcome none = varde_run({"topo", "--machine", "tests/topo/hgx.xml", "--gpus", "none", "--plan"});
    expect_contains(none.out, "because 112 of 224 CPUs that may be used");
}

Test(cli_topo, draws_the_plan_of_a_job) {
    const temporary_directory directory;
    const std::string path = directory.path() + "/plan";
    const std::string text = varde_run(of_hgx({"--plan"})).out;
    std::ofstream(path) << text;
    const outcome got = varde_run({"topo", "--machine", "tests/topo/hgx.xml", "--from", path, "--plan"});
    cr_expect(got.status == 0 && got.out == text, "%s", got.err.c_str());
    expect_contains(varde_run({"topo", "--machine", "tests/topo/hgx.xml", "--from", path}).out,
                    "2 of the job's 3 GPUs");
    // A plan of another machine is drawn as far as it fits.
    cr_expect(varde_run({"topo", "--machine", "tests/topo/cgroup.xml", "--from", path}).status == 0);
    std::ofstream(path) << text.substr(0, 100);
    const outcome torn = varde_run({"topo", "--from", path});
    cr_expect(torn.status == 2);
    expect_contains(torn.err, "varde: couldn't read '" + path + "': ");
    expect_contains(varde_run({"topo", "--from", "/nowhere/plan"}).err, "'/nowhere/plan': No such file or directory");
    expect_contains(varde_run({"topo", "--from", path, "--cpus", "0"}).err, "couldn't read the command line: ");
}

Test(cli_topo, prints_json) {
    const outcome got = varde_run(of_hgx({"--json"}));
    const auto json = nlohmann::json::parse(got.out, nullptr, false);
    cr_assert(!json.is_discarded(), "%s", got.out.c_str());
    cr_expect(json["machine"]["model"] == "HGX H100" && json["machine"]["devices"].size() == 19);
    cr_expect(json["machine"]["nodes"][1]["cpus"] == "56-111,168-223" && json["machine"]["nodes"][1]["kind"] == "cpu");
    cr_expect(json["plan"]["arena_bytes"] == 256ULL << 30 && json["plan"]["gpus"][2]["node"] == 1);
    cr_expect(json["plan"]["storage"][0]["name"] == "enp41s0f0np0" && json["plan"]["writers"]["cpus"] == "0-3,112-167");
}

Test(cli_topo, draws_an_svg_of_its_own) {
    const temporary_directory directory;
    const std::string path = directory.path() + "/hgx.svg";
    const outcome got = varde_run(of_hgx({"--svg", path}));
    cr_expect(got.status == 0 && got.out.empty() && got.err.empty(), "%s", got.err.c_str());
    const std::string svg = read_file(path);
    cr_expect(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"") && svg.ends_with("</svg>\n"));
    cr_expect(count_of(svg, "<g") == count_of(svg, "</g>") && count_of(svg, "http") == 1,
              "it needs nothing from outside");
    cr_expect(count_of(svg, "class=\"cpu-writer\"") == 60 + 1, "60 CPUs, and the key");
    cr_expect(count_of(svg, "class=\"cpu-job\"") == 100 + 1);
    cr_expect(count_of(svg, "class=\"gpu\"") == 3 && count_of(svg, "class=\"gpu-idle\"") == 5);
    cr_expect(count_of(svg, "class=\"link\"") == 8, "each GPU and its interface");
    expect_contains(svg, ">arena: 170.6 GiB here, 2 of the job&apos;s 3 GPUs<");
}

Test(cli_topo, what_is_written_on_devices_is_escaped) {
    cr_expect(cli::svg_escaped("a<b>&\"c'\x01") == "a&lt;b&gt;&amp;&quot;c&apos;?");
    cli::topo_view view;
    view.machine.allowed.set(0);
    view.machine.nodes = {{.index = 0, .bytes = 1ULL << 30, .cpus = view.machine.allowed}};
    view.machine.devices = {{.kind = topo::device_kind::network,
                             .pci = "0000:01:00.0",
                             .names = {"</svg>"},
                             .model = "<script>",
                             .nodes = {0}}};
    view.plan = need(topo::make_plan(view.machine, {}));
    const std::string svg = cli::topo_svg(view);
    cr_expect(count_of(svg, "</svg>") == 1 && count_of(svg, "<script>") == 0);
}

Test(cli_topo, this_machine_is_drawn) {
    const outcome got = varde_run({"topo"});
    cr_expect(got.status == 0, "%s", got.err.c_str());
    expect_contains(got.out, "┌ NUMA node ");
    expect_contains(got.out, "writers: ");
}

Test(cli_topo, wrong_usage_is_refused_with_an_example) {
    const std::pair<std::vector<std::string>, const char*> cases[] = {
        {{"--cpus", "4-"}, "couldn't read --cpus='4-': it is empty; give it as 0-15,32"},
        {{"--system-cpus", "x"}, "couldn't read --system-cpus='x': 'x' should start with a digit; give it as 0-15,32"},
        {{"--memory", "12X"}, "couldn't read --memory='12X': 'X' is not a unit (K, M, G, T, P); give it as 64G"},
        {{"--ranks", "-1"}, "couldn't read the command line: "},
        {{"--machine", "tests/topo/none.xml"}, "couldn't read the machine 'tests/topo/none.xml': No such file"},
        {{"--machine", "Makefile"}, "couldn't read the machine 'Makefile': "},
        {{"--svg", "/nowhere/a.svg"}, "couldn't write '/nowhere/a.svg': No such file or directory"},
        {{"more"}, "couldn't read the command line: "},
    };
    for (const auto& [arguments, words] : cases) {
        std::vector<std::string> all{"topo"};
        all.insert(all.end(), arguments.begin(), arguments.end());
        const outcome got = varde_run(all);
        cr_expect(got.status == 2 && got.out.empty(), "%s", words);
        expect_contains(got.err, "varde: " + std::string(words));
    }
    expect_contains(varde_run({"--help"}).out, "topo");
    for (const char* option : {"--machine", "--gpus", "--storage", "--svg", "--plan", "--json"})
        expect_contains(varde_run({"topo", "--help"}).out, option);
}
