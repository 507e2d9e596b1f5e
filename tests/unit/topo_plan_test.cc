// What plan comes out for each machine of tests/topo, to the letter, and for machines that are made up here.
#include "topo_support.h"

#include "topo/shares.h"

using namespace topo_test;

namespace {

void expect_plan(const machine& on, const request& wanted, const std::string& expected) {
    const plan made = need(make_plan(on, wanted));
    const std::string text = format_plan(made);
    cr_expect(text == expected, "got:\n%s\nexpected:\n%s", text.c_str(), expected.c_str());
    cr_expect(need(parse_plan(text)) == made);
}

void expect_notes(const plan& of, const std::string& expected) {
    std::string text;
    for (const std::string& each : of.notes) text += each + "\n";
    cr_expect(text == expected, "got:\n%s\nexpected:\n%s", text.c_str(), expected.c_str());
}

cpu_set cpus(const char* text) { return need(parse_cpus(text)); }

// Two nodes of 4 CPUs and 16 GiB each, and nothing else.
machine two_nodes() {
    machine made;
    made.allowed = cpus("0-7");
    made.nodes = {{.index = 0, .bytes = 16 * gib, .cpus = cpus("0-3")},
                  {.index = 1, .bytes = 16 * gib, .cpus = cpus("4-7")}};
    return made;
}

device gpu_at(const char* pci, std::vector<uint32_t> nodes) {
    return {.kind = device_kind::gpu, .pci = pci, .nodes = std::move(nodes)};
}

}  // namespace

Test(topo_plan, hgx_with_the_whole_machine) {
    expect_plan(machine_of("hgx"),
                {.arena_bytes = 256 * gib,
                 .cpus = cpus("4-55,60-111,116-167,172-223"),
                 .gpus = std::vector<std::string>{"0", "1", "2", "3", "4", "5", "6", "7"},
                 .ranks = 8,
                 .storage = {"enp41s0f0np0"},
                 .system_cpus = cpus("0-3,56-59,112-115,168-171")},
                R"(varde-plan 1
arena 274877906944
node 0 holds 137438953472 cpus 0-55,112-167 because 4 of the job's 8 GPUs
node 1 holds 137438953472 cpus 56-111,168-223 because 4 of the job's 8 GPUs
gpu 0000:1b:00.0 node 0 because it is at node 0
gpu 0000:43:00.0 node 0 because it is at node 0
gpu 0000:52:00.0 node 0 because it is at node 0
gpu 0000:61:00.0 node 0 because it is at node 0
gpu 0000:9d:00.0 node 1 because it is at node 1
gpu 0000:c3:00.0 node 1 because it is at node 1
gpu 0000:d1:00.0 node 1 because it is at node 1
gpu 0000:df:00.0 node 1 because it is at node 1
storage enp41s0f0np0 node 0 because it is named as storage, and at node 0
writers 0-3,112-115 because set aside for the system, near 'enp41s0f0np0'
end
)");
}

Test(topo_plan, hgx_where_nobody_says_what_the_storage_is) {
    expect_plan(machine_of("hgx"),
                {.arena_bytes = 30 * gib,
                 .cpus = cpus("0-15,56-71"),
                 .gpus = std::vector<std::string>{"nvml0", "9D:00.0", "0"}},
                R"(varde-plan 1
arena 32212254720
node 0 holds 16106127360 cpus 0-55,112-167 because 1 of the job's 2 GPUs
node 1 holds 16106127360 cpus 56-111,168-223 because 1 of the job's 2 GPUs
gpu 0000:1b:00.0 node 0 because it is at node 0
gpu 0000:9d:00.0 node 1 because it is at node 1
storage enp41s0f0np0 node 0 because every other interface is behind the switch of a GPU; it is at node 0
writers 16-55,112-167 because near 'enp41s0f0np0', not the job's
end
)");
}

Test(topo_plan, epyc_with_two_gpus_and_a_disk) {
    expect_plan(machine_of("epyc_nps4"),
                {.arena_bytes = 16 * gib,
                 .cpus = cpus("0-31,64-95"),
                 .gpus = std::vector<std::string>{"2", "3"},
                 .storage = {"nvme0n1"}},
                R"(varde-plan 1
arena 17179869184
node 0 holds 8589934592 cpus 0-15,64-79 because 1 of the job's 2 GPUs
node 1 holds 8589934592 cpus 16-31,80-95 because 1 of the job's 2 GPUs
node 2 holds 0 cpus 32-47,96-111 because none of the job's 2 GPUs
node 3 holds 0 cpus 48-63,112-127 because none of the job's 2 GPUs
gpu 0000:82:00.0 node 1 because it is at node 1
gpu 0000:c1:00.0 node 0 because it is at node 0
storage nvme0n1 node 1 because it is named as storage, and at node 1
writers 16-31,80-95 because near 'nvme0n1'; all of them are the job's
end
)");
}

Test(topo_plan, grace_keeps_slabs_out_of_the_memory_of_gpus) {
    expect_plan(machine_of("grace"),
                {.arena_bytes = 64 * gib, .cpus = cpus("0-287"), .storage = {"hsn2"}, .system_cpus = cpus("71,143")},
                R"(varde-plan 1
arena 68719476736
node 0 holds 17179869184 cpus 0-71 because 1 of 4 GPUs
node 1 holds 17179869184 cpus 72-143 because 1 of 4 GPUs
node 2 holds 17179869184 cpus 144-215 because 1 of 4 GPUs
node 3 holds 17179869184 cpus 216-287 because 1 of 4 GPUs
gpu 0009:01:00.0 node 0 because it is at node 0
gpu 0019:01:00.0 node 1 because it is at node 1
gpu 0029:01:00.0 node 2 because it is at node 2
gpu 0039:01:00.0 node 3 because it is at node 3
storage hsn2 node 2 because it is named as storage, and at node 2
writers 71,143 because set aside for the system; none of them is near 'hsn2'
end
)");
}

Test(topo_plan, no_gpu_with_ranks) {
    const char* expected = R"(varde-plan 1
arena 12884901888
node 0 holds 8589934592 cpus EVEN because 2 of the job's 3 ranks, spread over the job's CPUs
node 1 holds 4294967296 cpus ODD because 1 of the job's 3 ranks, spread over the job's CPUs
storage ib0 node 0 because it is named as storage, and at node 0
writers FREE because near 'ib0', not the job's
end
)";
    cpu_set even;
    for (size_t cpu = 0; cpu < 64; cpu += 2) even.set(cpu);
    std::string text = expected;
    text.replace(text.find("EVEN"), 4, format_cpus(even));
    text.replace(text.find("ODD"), 3, format_cpus(even << 1));
    text.replace(text.find("FREE"), 4, format_cpus(even & ~cpus("0-7")));
    expect_plan(machine_of("no_gpu"), {.arena_bytes = 12 * gib, .cpus = cpus("0-7"), .ranks = 3, .storage = {"ib0"}},
                text);
}

Test(topo_plan, no_gpu_with_cpus_alone_and_several_interfaces) {
    const plan made = need(make_plan(machine_of("no_gpu"), {.arena_bytes = 12 * gib, .cpus = cpus("0,2,4,5")}));
    cr_expect(made.shares[0].bytes == 9 * gib && made.shares[1].bytes == 3 * gib);
    cr_expect(made.shares[0].reason == "3 of the job's 4 CPUs");
    cr_expect(made.storage.empty() && format_cpus(made.writers) == "1,3,6-63");
    cr_expect(made.writers_reason == "not the job's; the storage device is not known");
    expect_notes(made, "no storage device is named, and 2 interfaces could be it: writers may be far from it\n");
}

Test(topo_plan, a_cgroup_keeps_writers_to_its_cpus) {
    expect_plan(machine_of("cgroup"),
                {.arena_bytes = 8 * gib, .cpus = cpus("4-5,20-21"), .storage = {"ens1f0"}, .system_cpus = cpus("0-3")},
                R"(varde-plan 1
arena 8589934592
node 0 holds 8589934592 cpus 0-31 because 1 of 1 GPUs
gpu 0000:65:00.0 node 0 because it is at node 0
storage ens1f0 node 0 because it is named as storage, and at node 0
writers 6-7,22-23 because near 'ens1f0', not the job's
end
)");
}

Test(topo_plan, devices_without_locality_are_spread) {
    expect_plan(machine_of("no_locality"), {.arena_bytes = 12 * gib},
                R"(varde-plan 1
arena 12884901888
node 0 holds 8589934592 cpus 0-23 because 2 of 3 GPUs
node 1 holds 4294967296 cpus 24-47 because 1 of 3 GPUs
gpu 0001:21:00.0 node 0 because its place is not known; of all nodes this has the fewest GPUs so far
gpu 0001:41:00.0 node 1 because its place is not known; of all nodes this has the fewest GPUs so far
gpu 0001:61:00.0 node 0 because its place is not known; of all nodes this has the fewest GPUs so far
storage ens5 node unknown because it is the only interface; its place is not known
writers 0-47 because all that may be used; no CPU that may be used is known to be near 'ens5'; the job's are not known
end
)");
}

Test(topo_plan, gpus_without_locality_go_where_the_job_is) {
    const plan made = need(
        make_plan(machine_of("no_locality"), {.arena_bytes = 12 * gib, .cpus = cpus("30-40"), .storage = {"ens5"}}));
    cr_expect(made.shares[0].bytes == 0 && made.shares[1].bytes == 12 * gib);
    cr_expect(made.gpus[0].reason == "its place is not known; node 1 has the job's CPUs", "%s",
              made.gpus[0].reason.c_str());
    cr_expect(format_cpus(made.writers) == "0-29,41-47");
}

Test(topo_plan, what_is_not_there_is_noted) {
    const plan made = need(make_plan(machine_of("hgx"), {.arena_bytes = gib,
                                                         .cpus = cpus("8000"),
                                                         .gpus = std::vector<std::string>{"9", "GPU-1\n2"},
                                                         .storage = {"bond0", "bond0", "a b", ""}}));
    expect_notes(made,
                 "none of the job's CPUs may be used here: they are left out of account\n"
                 "there is no GPU '9' here: it is left out of account\n"
                 "there is no GPU 'GPU-1?2' here: it is left out of account\n"
                 "'a b' is no name of a device: it is left out of account\n"
                 "'' is no name of a device: it is left out of account\n");
    cr_expect(made.gpus.empty() && made.shares[0].reason == "112 of 224 CPUs that may be used");
    cr_expect(made.storage.size() == 1 && made.storage[0].name == "bond0" && !made.storage[0].node &&
              made.storage[0].reason == "it is named as storage; there is no such device here");
    cr_expect(format_cpus(made.writers) == "0-223");
    cr_expect(need(parse_plan(format_plan(made))) == made);
}

Test(topo_plan, a_job_without_gpus_does_not_count_the_machines) {
    const plan made = need(make_plan(
        machine_of("hgx"),
        {.arena_bytes = 4 * gib, .cpus = cpus("56-59"), .gpus = std::vector<std::string>{}, .storage = {"nvme1n1"}}));
    cr_expect(made.shares[0].bytes == 0 && made.shares[1].bytes == 4 * gib && made.gpus.empty());
}

Test(topo_plan, a_node_without_memory_is_served_by_the_nearest) {
    machine on = two_nodes();
    on.allowed = cpus("0-11");
    on.nodes.push_back({.index = 5, .bytes = 0, .cpus = cpus("8-11")});
    on.latency = {{10, 20, 30}, {20, 10, 15}, {30, 15, 10}};
    on.devices = {gpu_at("0000:01:00.0", {5})};
    const plan made = need(make_plan(on, {.arena_bytes = gib}));
    cr_expect(made.shares.size() == 2 && format_cpus(made.shares[1].cpus) == "4-11");
    cr_expect(made.gpus[0].node == 1 &&
                  made.gpus[0].reason == "it is at node 5, where no memory may be used; node 1 is the nearest",
              "%s", made.gpus[0].reason.c_str());
    on.latency.clear();
    cr_expect(need(make_plan(on, {.arena_bytes = gib})).gpus[0].node == 0);
    on.nodes[0].allowed = false;
    cr_expect(need(make_plan(on, {.arena_bytes = gib})).gpus[0].node == 1);
}

Test(topo_plan, a_gpu_of_a_socket_with_several_nodes_fills_up) {
    machine on = two_nodes();
    on.allowed = cpus("0-11");
    on.nodes.push_back({.index = 2, .bytes = gib, .cpus = cpus("8-11")});
    on.devices = {gpu_at("0000:01:00.0", {0, 1}), gpu_at("0000:02:00.0", {0})};
    const plan made = need(make_plan(on, {.arena_bytes = gib}));
    cr_expect(made.gpus[0].node == 1 &&
              made.gpus[0].reason == "it is near nodes 0, 1, of which this has the fewest GPUs so far");
    cr_expect(made.gpus[1].node == 0);
}

Test(topo_plan, shares_are_whole_pages_but_for_the_last) {
    const machine on = two_nodes();
    for (const uint64_t arena : {uint64_t{0}, uint64_t{1}, uint64_t{4095}, 3 * gib + 4097, 5 * gib + (1 << 20) + 1}) {
        for (const uint64_t page : {uint64_t{4096}, uint64_t{2} << 20, gib}) {
            const plan made = need(make_plan(on, {.arena_bytes = arena, .page_bytes = page}));
            cr_expect(made.shares[0].bytes + made.shares[1].bytes == arena);
            cr_expect(made.shares[0].bytes % page == 0 || made.shares[1].bytes == 0);
        }
    }
}

Test(topo_plan, a_share_that_does_not_fit_its_node_is_noted) {
    const plan made = need(make_plan(two_nodes(), {.arena_bytes = 40 * gib}));
    cr_expect(made.notes.front() == "node 0 has only 16 GiB: its share does not fit there");
}

Test(topo_plan, a_machine_that_may_not_be_used_has_no_plan) {
    machine on = two_nodes();
    for (numa_node& each : on.nodes) each.kind = memory_kind::gpu;
    cr_expect(make_plan(on, {.arena_bytes = gib}).error().what == code::invalid);
    cr_expect(make_plan(machine{}, {.arena_bytes = gib}).error().what == code::invalid);
}

Test(topo_plan, ranks_find_their_node) {
    const plan made = need(make_plan(machine_of("hgx"), {.arena_bytes = gib}));
    cr_expect(node_of_gpu(made, "0000:DF:00.0") == 1u && node_of_gpu(made, "1b:00.0") == 0u);
    cr_expect(!node_of_gpu(made, "0000:02:00.0") && !node_of_gpu(made, "0"));
    cr_expect(node_of_cpus(made, cpus("54-60")) == 1u && node_of_cpus(made, cpus("55,56")) == 0u);
    cr_expect(!node_of_cpus(made, {}) && !node_of_cpus(made, cpus("300")));
}

Test(topo_plan, split_gives_everything_away_in_proportion) {
    using parts = std::vector<uint64_t>;
    cr_expect(split(10, {1, 1}) == parts({5, 5}));
    cr_expect(split(3, {1, 1}) == parts({2, 1}));
    cr_expect(split(7, {0, 0, 0}) == parts({3, 2, 2}));
    cr_expect(split(10, {3, 0, 1}) == parts({8, 0, 2}));
    cr_expect(split(0, {2, 1}) == parts({0, 0}));
    const parts large = split(UINT64_MAX, {8191, 1, 8192});
    cr_expect(large[0] + large[1] + large[2] == UINT64_MAX && large[1] == UINT64_MAX / 16384 + 1);
}

Test(topo_plan, a_text_that_is_not_as_it_would_be_written_is_refused) {
    const std::string good =
        format_plan(need(make_plan(machine_of("epyc_nps4"), {.arena_bytes = gib, .storage = {"hsn0"}})));
    cr_assert(parse_plan(good).has_value());
    const auto with = [&](const std::string& word, const std::string& instead) {
        std::string text = good;
        const size_t at = text.find(word);
        cr_assert(at != std::string::npos, "%s", word.c_str());
        return text.replace(at, word.size(), instead);
    };
    const std::pair<std::string, const char*> cases[] = {
        {"", "its first line is not 'varde-plan 1'"},
        {with("plan 1", "plan 2"), "its first line is not 'varde-plan 1'"},
        {good.substr(0, good.size() - 4), "its end is missing"},
        {good.substr(0, good.size() - 1), "it is not as it would be written"},
        {good + "x", "it is not as it would be written"},
        {with("arena 1", "arena 01"), "it is not as it would be written"},
        {with("arena 1", "arena 2"), "the nodes do not hold what the arena has"},
        {with("arena 1", "arena x"), "line 2: 'x073741824' should start with a digit"},
        {with("arena 1073741824", "arena 18446744073709551616"), "line 2: the number is too large"},
        {with("node 0 holds", "node 1 holds"), "line 4: nodes are not in their order"},
        {with("node 0 holds", "node 1024 holds"), "line 3: it is larger than 1023"},
        {with("holds", "has"), "line 3: 'holds' is missing"},
        {with(" cpus 0-15,", " cpus 15-0,"), "line 3: '15-0' ends before it begins"},
        {with(" cpus 0-15,", " cpus 0-14,15,"), "it is not as it would be written"},
        {with("gpu 0000:03", "gpu 0003"), "line 7: it has no PCI address"},
        {with("gpu 0000:03", "gpu 0000:FF"), "line 8: GPUs are not in their order"},
        {with("node 3 because", "node 9 because"), "line 7: its node has no line"},
        {with("storage hsn0", "storage \x1b"), "line 11: it has no name of a device"},
        {with("node 2 because it is named", "node un because it is named"), "line 11: 'un' should start with a digit"},
        {with("writers 32-47,96-111", "writers "), "line 12: there are no CPUs"},
        {with(" because near", " becuase near"), "line 12: 'because' is missing"},
        {with("near 'hsn0'", "near \tx"), "line 12: the words at its end are missing, too long or not plain"},
        {with("end\n", "note \nend\n"), "line 13: the words at its end are missing, too long or not plain"},
        {with("end\n", "nothing 1\nend\n"), "line 13: 'nothing' is no fact of a plan"},
        {with("end\n", "arena 1073741824\nend\n"), "it is not as it would be written"},
        {with("end\n", "arena 1073741824 x\nend\n"), "line 13: there is more than its fact"},
        {with("\n", "\n\n"), "line 2: '' is no fact of a plan"},
        {std::string(2 << 20, 'x'), "it is larger than 1 MiB"},
    };
    for (const auto& [text, why] : cases) {
        const auto read = parse_plan(text);
        cr_assert(!read.has_value(), "accepted where: %s", why);
        cr_expect(read.error().what == code::damaged);
        cr_expect(read.error().context == "couldn't read the plan: " + std::string(why), "got '%s', not '%s'",
                  read.error().context.c_str(), why);
    }
}
