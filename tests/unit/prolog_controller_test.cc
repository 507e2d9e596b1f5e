// The controller hook's parsers of Slurm's output (prolog_helper_test.cc has its decisions).
#include "epilog/controller/slurm_tools.h"

#include <criterion/criterion.h>
#include <map>

using namespace varde;
using namespace varde::controller;
using names = std::vector<std::string>;

Test(controller, reads_a_line_of_squeue) {
    const auto job = parse_job("COMPLETING|1796042734|node[1-3],x|varde: a|b silent");
    cr_assert(job.has_value());
    cr_assert(job->state == "COMPLETING" && *job->end_s == 1796042734 && job->excluded == "node[1-3],x" &&
              job->comment == "varde: a|b silent");
    const auto plain = parse_job("PENDING|NONE||(null)");
    cr_assert(plain.has_value() && !plain->end_s && plain->excluded.empty() && plain->comment.empty());
    for (const char* bad : {"", "slurm_load_jobs error: x", "PENDING|1|node1", "PENDING|1|node1 State=DOWN|c",
                            "PENDING|1|-x|c", "PENDING|1|$(x)|c"})
        cr_assert(!parse_job(bad).has_value(), "'%s'", bad);
}

static fate fate_at(const char* line) { return fate_of(*parse_job(line), 1000); }

Test(controller, tells_a_requeue_from_an_end) {
    cr_assert(fate_at("COMPLETING|1600||") == fate::completing, "its end is ahead");
    cr_assert(fate_at("COMPLETING|NONE||") == fate::completing, "it has no limit");
    cr_assert(fate_at("COMPLETING|1000||") == fate::ended);
    cr_assert(fate_at("COMPLETING|1001||") == fate::ended);
    cr_assert(fate_at("PENDING,COMPLETING|1600||") == fate::completing);
    cr_assert(fate_at("PENDING|N/A||") == fate::pending);
    for (const char* ended : {"RUNNING|1600||", "CONFIGURING|NONE||", "COMPLETED|900||", "CANCELLED|900||",
                              "FAILED|NONE||", "TIMEOUT|900||", "SPECIAL_EXIT|NONE||", "REQUEUE_HOLD|NONE||", "|||"})
        cr_assert(fate_at(ended) == fate::ended, "%s", ended);
}

Test(controller, reads_nodes_and_port) {
    const auto nodes = parse_nodes(
        "NodeName=n1 Arch=x86_64 NodeAddr=10.0.0.1 NodeHostName=h State=ALLOCATED Port=7001 Reason=x NodeAddr=evil\n"
        "NodeName=n2 NodeAddr=10.0.0.2 State=DOWN+NOT_RESPONDING \n"
        "Node x not found\nNodeName=$(x) NodeAddr=1\n\n");
    cr_assert_eq(nodes.size(), 2);
    cr_assert(nodes[0].name == "n1" && nodes[0].address == "10.0.0.1" && nodes[0].port == 7001 && !is_down(nodes[0]));
    cr_assert(nodes[1].name == "n2" && nodes[1].port == 0 && is_down(nodes[1]));
    cr_assert_eq(parse_slurmd_port("SlurmctldPort = 1\nSlurmdPort              = 17001\n"), 17001);
    for (const char* none :
         {"", "SlurmdPort = \n", "SlurmdPort = 0\n", "SlurmdPort = 70000\n", "SlurmdPort", "SlurmdPort "})
        cr_assert_eq(parse_slurmd_port(none), 6818, "'%s'", none);
}

Test(controller, believes_names_in_a_comment_only_if_they_are_the_jobs) {
    const names nodes{"n1", "n2", "n3"};
    for (const std::string why : {"silent", "cut off", "failing"}) {
        cr_assert(named_bad("varde: n2 " + why + ", requeued", nodes).names == names{"n2"});
        cr_assert(named_bad("varde: n3,n1,n3 " + why, nodes).names == (names{"n3", "n1"}));
        cr_assert(named_bad("varde: n3 " + why, nodes).why == why);
    }
    for (const char* none :
         {"", "varde: step 12 durable", "varde:  silent", "varde: silent", "n2 silent",
          "varde: n9,$(x),n1 State=DOWN silent", "silent varde: n1", "varde:", "varde: n1", "varde: n1 durable"})
        cr_assert(named_bad(none, nodes).names.empty() && named_bad(none, nodes).why.empty(), "'%s'", none);
}

static std::map<std::string, const char*> table;
static const char* look_up(const char* name) {
    const auto found = table.find(name);
    return found == table.end() ? nullptr : found->second;
}

Test(controller, names_a_task_of_an_array_so_that_no_other_is_meant) {
    table = {{"SLURM_JOB_ID", "7"}};
    cr_assert(*read_job_name(look_up) == "7");
    table = {{"SLURM_JOB_ID", "9"}, {"SLURM_ARRAY_JOB_ID", "7"}, {"SLURM_ARRAY_TASK_ID", "3"}};
    cr_assert(*read_job_name(look_up) == "7_3");
    for (const char* bad : {"", "-1", "3;x", "4294967295"}) {
        table["SLURM_ARRAY_TASK_ID"] = bad;
        cr_assert(!read_job_name(look_up).has_value(), "'%s'", bad);
    }
    table = {};
    cr_assert(!read_job_name(look_up).has_value());
}

Test(controller, knows_a_node_list) {
    for (const char* good : {"", "node1", "node[1-3,7],gpu-a.cluster_1"}) cr_assert(is_node_list(good), "%s", good);
    for (const char* bad : {"-x", "a b", "a;b", "a\nb", "$x", "a=b", "a/b"}) cr_assert(!is_node_list(bad), "%s", bad);
    cr_assert(!is_node_list(std::string(70000, 'a')));
}
