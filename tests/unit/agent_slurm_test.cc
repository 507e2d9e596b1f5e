// What the agent reads from scontrol's output, and what it tells scontrol to do: against real lines, and a script in
// scontrol's place.
#include "agent/slurm.h"

#include "base/clock.h"
#include "store_support.h"

#include <criterion/criterion.h>

using namespace varde;
using namespace varde::agent;
using store_test::read_file;
using store_test::refused;
using store_test::temporary_directory;
using store_test::write_file;

namespace {

// As Slurm 22.05.8 prints it.
std::string line_of_22(const std::string& id, const std::string& name, const std::string& state, int restarts,
                       const std::string& comment) {
    return id + " JobName=" + name +
           " UserId=varde(61001) GroupId=varde(61001) MCS_label=N/A Priority=4294901757 Nice=0 Account=(null) "
           "QOS=(null) JobState=" +
           state + " Reason=None Dependency=(null) Requeue=1 Restarts=" + std::to_string(restarts) +
           " BatchFlag=1 Reboot=0 ExitCode=0:0 RunTime=00:00:41 TimeLimit=UNLIMITED TimeMin=N/A "
           "SubmitTime=2026-11-30T12:34:30 "
           "EligibleTime=2026-11-30T12:34:30 AccrueTime=Unknown StartTime=2026-11-30T12:34:31 EndTime=Unknown "
           "Deadline=N/A SuspendTime=None "
           "SecsPreSuspend=0 LastSchedEval=2026-11-30T12:34:30 Scheduler=Main Partition=all AllocNode:Sid=controller:0 "
           "ReqNodeList=(null) "
           "ExcNodeList=(null) NodeList=node[1-2] BatchHost=node1 NumNodes=2 NumCPUs=2 NumTasks=2 CPUs/Task=1 "
           "ReqB:S:C:T=0:0:*:* "
           "TRES=cpu=2,mem=4G,node=2,billing=2 Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=* MinCPUsNode=1 "
           "MinMemoryNode=0 MinTmpDiskNode=0 "
           "Features=(null) DelayBoot=00:00:00 OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null) "
           "Command=(null) WorkDir=/home/varde " +
           (comment.empty() ? "" : "Comment=" + comment + "  ") +
           "StdErr=/home/varde/slurm-7.out StdIn=/dev/null StdOut=/home/varde/slurm-7.out Power= \n";
}

// Newer versions have more keys before, and no Power.
std::string line_of_newer(const std::string& comment) {
    return "JobId=7 JobName=train UserId=varde(61001) GroupId=varde(61001) MCS_label=N/A Priority=1 Nice=0 "
           "Account=(null) QOS=normal JobState=RUNNING "
           "Reason=None FailedNode=node9 Dependency=(null) Requeue=0 Restarts=2 BatchFlag=1 Reboot=0 ExitCode=0:0 "
           "RunTime=00:00:41 "
           "LogParam=x OverSubscribe=OK Contiguous=0 Licenses=(null) LicensesAlloc=(null) Network=(null) "
           "Command=/home/varde/train.sbatch "
           "SubmitLine=sbatch --comment=varde train.sbatch WorkDir=/home/varde AdminComment=seen by root " +
           (comment.empty() ? "" : "Comment=" + comment + "  ") +
           "StdErr= StdIn=/dev/null StdOut=/home/varde/slurm-7.out TresPerTask=cpu=1 \n";
}

// A scontrol that shows a file and writes down what else it was asked for.
class fake_scontrol {
public:
    explicit fake_scontrol(const std::string& shown, const std::string& behaviour = "") {
        write_file(shown_path(), shown);
        const std::string program = directory_.path() + "/scontrol";
        write_file(
            program,
            "#!/bin/sh\n"
            "here=${0%/*}\n" +
                behaviour +
                "\n"
                "if [ \"$2\" = show ]; then cat \"$here/shown\"; exit 0; fi\n"
                "for word in \"$@\"; do printf '<%s>' \"$word\" >> \"$here/asked\"; done; echo >> \"$here/asked\"\n");
        cr_assert_eq(::chmod(program.c_str(), 0700), 0);
    }
    slurm client(uint64_t job = 7, int timeout_ms = 5000) const { return slurm(directory_.path(), job, timeout_ms); }
    std::string asked() const { return read_file(asked_path()); }
    std::string asked_path() const { return directory_.path() + "/asked"; }
    std::string tries() const { return read_file(directory_.path() + "/tries"); }

private:
    std::string shown_path() const { return directory_.path() + "/shown"; }
    temporary_directory directory_;
};

}  // namespace

// ---- reading

Test(agent_slurm, reads_the_line_of_an_ordinary_job) {
    const auto facts = parse_job(line_of_22("JobId=7", "train", "RUNNING", 3, "varde: step 1200 durable 10:20:03"));
    cr_assert_eq(facts.id, "7");
    cr_assert_eq(facts.state, "RUNNING");
    cr_assert_eq(facts.restarts, 3);
    cr_assert(facts.batch && facts.requeue);
    cr_assert_eq(facts.comment, "varde: step 1200 durable 10:20:03");
    cr_assert_eq(parse_job(line_of_22("JobId=7", "train", "PENDING", 0, "")).comment, "");
}

Test(agent_slurm, reads_the_line_of_a_newer_slurm) {
    const auto facts = parse_job(line_of_newer("varde: step 9 durable 10:20:03"));
    cr_assert_eq(facts.state, "RUNNING");
    cr_assert_eq(facts.restarts, 2);
    cr_assert(facts.batch && !facts.requeue);
    cr_assert_eq(facts.comment, "varde: step 9 durable 10:20:03");
    cr_assert_eq(parse_job(line_of_newer("")).comment, "", "neither the submit line's nor the administrator's");
}

Test(agent_slurm, finds_where_the_jobs_errors_go) {
    cr_assert_eq(parse_job(line_of_22("JobId=7", "train", "RUNNING", 0, "")).error_file, "/home/varde/slurm-7.out");
    cr_assert_eq(parse_job(line_of_newer("StdErr=x StdIn=y")).error_file, "/home/varde/slurm-7.out", "StdErr is empty");
    cr_assert_eq(parse_job(" MCS_label=N/A StdErr=/a b/c StdIn=/x StdOut=/y").error_file, "/a b/c");
    cr_assert_eq(parse_job(" MCS_label=N/A StdErr= StdIn=/x StdOut=").error_file, "");
    cr_assert_eq(parse_job(" MCS_label=N/A StdErr=/a").error_file, "");
}

Test(agent_slurm, a_comment_keeps_its_blanks_and_equals_signs) {
    for (const char* comment : {"my text = more", "a=b c=d", "Comment=Comment=", "JobState=FAILED Restarts=9", "x"}) {
        const auto facts = parse_job(line_of_22("JobId=7", "train", "RUNNING", 1, comment));
        cr_assert_eq(facts.comment, comment);
        cr_assert_eq(facts.state, "RUNNING");
        cr_assert_eq(facts.restarts, 1);
    }
    // Cut short at a key, but still the user's: it does not begin with our mark.
    cr_assert_eq(parse_job(line_of_22("JobId=7", "train", "RUNNING", 1, "my StdErr=no")).comment, "my");
}

Test(agent_slurm, a_job_name_cannot_pass_for_the_fields_after_it) {
    for (const char* name :
         {"a b", "a b UserId=x JobState=FAILED", "x Restarts=9 BatchFlag=0 Comment=varde: mine", "ArrayTaskId=4",
          "x ArrayJobId=5 ArrayTaskId=4", "x MCS_label=N/A JobState=FAILED Requeue=0", "JobState=", "="}) {
        const auto facts = parse_job(line_of_22("JobId=7", name, "RUNNING", 1, "the user's"));
        cr_assert_eq(facts.id, "7", "%s", name);
        cr_assert_eq(facts.state, "RUNNING", "%s", name);
        cr_assert_eq(facts.restarts, 1, "%s", name);
        cr_assert(facts.batch && facts.requeue, "%s", name);
        cr_assert_eq(facts.comment, "the user's", "%s", name);
    }
}

Test(agent_slurm, nothing_it_can_be_given_breaks_it) {
    std::string line = line_of_22("JobId=7", "train", "RUNNING", 3, "varde: x");
    for (size_t length = 0; length <= line.size(); length++)
        discard(parse_job(line.substr(0, length)).restarts > 3 ? 1 : 0, "only that it returns");
    const auto empty = parse_job("");
    cr_assert(empty.state.empty() && empty.id.empty() && !empty.batch);
    cr_assert_eq(field_of("A=1 B= C=3", "B"), "");
    cr_assert_eq(field_of("XA=1 A=2", "A"), "2", "a key is a whole word");
    cr_assert_eq(field_of("A=1\nB=2", "A"), "1");
}

Test(agent_slurm, finds_its_own_task_among_those_of_an_array) {
    const std::string output = line_of_22("JobId=9 ArrayJobId=7 ArrayTaskId=1", "a", "PENDING", 0, "") +
                               line_of_22("JobId=77 ArrayJobId=7 ArrayTaskId=2", "a", "FAILED", 0, "") +
                               line_of_22("JobId=7 ArrayJobId=7 ArrayTaskId=3", "a", "RUNNING", 5, "");
    const auto facts = parse_job(line_of_job(output, 7));
    cr_assert_eq(facts.id, "7_3", "number 7 alone would mean the whole array");
    cr_assert_eq(facts.state, "RUNNING");
    cr_assert_eq(line_of_job(output, 8), "");
    cr_assert_eq(line_of_job("", 7), "");
}

// ---- acting

Test(agent_requeue, happens_once_with_the_reason_in_the_comment) {
    const fake_scontrol fake(line_of_22("JobId=7", "train", "RUNNING", 2, ""));
    store_test::need(fake.client().requeue(2, "varde: node2 silent, requeued"));
    cr_assert_eq(fake.asked(), "<update><jobid=7><comment=varde: node2 silent, requeued>\n<requeue><7>\n");
}

Test(agent_requeue, is_left_alone_when_somebody_else_has_restarted_the_job) {
    const fake_scontrol fake(line_of_22("JobId=7", "train", "RUNNING", 3, ""));
    refused(fake.client().requeue(2, "varde: x"), code::fenced, "3 restarts");
    cr_assert_eq(fake.asked(), "");
}

Test(agent_requeue, is_left_alone_in_any_state_but_running) {
    for (const char* state : {"PENDING", "COMPLETING", "CANCELLED", "COMPLETED", "NODE_FAIL", "SUSPENDED", ""}) {
        const fake_scontrol fake(line_of_22("JobId=7", "train", state, 2, ""));
        refused(fake.client().requeue(2, "varde: x"), code::busy, state);
        cr_assert_eq(fake.asked(), "", "%s", state);
    }
}

Test(agent_requeue, is_refused_without_a_batch_script) {
    std::string line = line_of_22("JobId=7", "train", "RUNNING", 2, "");
    line.replace(line.find("BatchFlag=1"), 11, "BatchFlag=0");
    const fake_scontrol fake(line);
    refused(fake.client().requeue(2, "varde: x"), code::invalid, "sbatch");
    cr_assert_eq(fake.asked(), "");
}

Test(agent_requeue, does_not_touch_a_comment_of_the_user) {
    const fake_scontrol fake(line_of_22("JobId=7", "train", "RUNNING", 2, "run 12, ask Ada"));
    store_test::need(fake.client().requeue(2, "varde: x"));
    cr_assert_eq(fake.asked(), "<update><jobid=7><extra=varde: x>\n<requeue><7>\n");
}

Test(agent_requeue, happens_also_when_the_comment_is_refused) {
    const fake_scontrol fake(line_of_22("JobId=7", "train", "RUNNING", 2, ""),
                             "[ \"$1\" = update ] && { echo 'Access denied'; exit 1; }");
    store_test::need(fake.client().requeue(2, "varde: x"));
    cr_assert_eq(fake.asked(), "<requeue><7>\n");
}

Test(agent_requeue, tells_what_scontrol_said) {
    const fake_scontrol fake(line_of_22("JobId=7", "train", "RUNNING", 2, ""),
                             "[ \"$1\" = requeue ] && { echo 'Job is disabled'; exit 1; }");
    refused(fake.client().requeue(2, "varde: x"), code::unavailable, "Job is disabled");
}

Test(agent_requeue, of_an_array_task_spares_the_others) {
    const fake_scontrol fake(line_of_22("JobId=7 ArrayJobId=7 ArrayTaskId=3", "a", "RUNNING", 0, ""));
    store_test::need(fake.client().requeue(0, "varde: x"));
    cr_assert_eq(fake.asked(), "<update><jobid=7_3><comment=varde: x>\n<requeue><7_3>\n");
}

Test(agent_requeue, is_refused_where_scontrol_shows_another_job) {
    const fake_scontrol fake(line_of_22("JobId=70", "train", "RUNNING", 2, ""));
    refused(fake.client().requeue(2, "varde: x"), code::unavailable, "no job 7");
}

Test(agent_comment, replaces_its_own_text_and_an_empty_one_only) {
    for (const char* before : {"", "varde: step 1100 durable 10:00:01"}) {
        const fake_scontrol fake(line_of_22("JobId=7", "train", "RUNNING", 2, before));
        store_test::need(fake.client().comment("varde: step 1200 durable 10:20:03; $(rm -rf x) 'quoted'"));
        cr_assert_eq(fake.asked(),
                     "<update><jobid=7><comment=varde: step 1200 durable 10:20:03; $(rm -rf x) 'quoted'>\n");
    }
    for (const char* before : {"x", "my varde: text", "Varde: not ours"}) {
        const fake_scontrol fake(line_of_22("JobId=7", "train", "RUNNING", 2, before));
        store_test::need(fake.client().comment("varde: step 1200"));
        cr_assert_eq(fake.asked(), "<update><jobid=7><extra=varde: step 1200>\n", "'%s' was overwritten", before);
    }
}

// ---- telling

namespace {

std::string line_with_output(const std::string& comment, const std::string& path) {
    std::string line = line_of_22("JobId=7", "train", "RUNNING", 2, comment);
    const std::string shown = "/home/varde/slurm-7.out";
    for (size_t at = 0; (at = line.find(shown, at)) != std::string::npos; at += path.size())
        line.replace(at, shown.size(), path);
    return line;
}

}  // namespace

Test(agent_slurm_tells, in_the_comment_and_in_the_jobs_output) {
    const temporary_directory home;
    const std::string output = home.path() + "/job.out";
    write_file(output, "step 12\n");
    const fake_scontrol fake(line_with_output("", output));
    cr_assert(fake.client().tell("varde: exit code 2, not requeued").has_value());
    cr_assert_eq(read_file(output), "step 12\nvarde: exit code 2, not requeued\n");
    cr_assert_eq(fake.asked(), "<update><jobid=7><comment=varde: exit code 2, not requeued>\n");
}

// Newer Slurms have a field Extra; 22.05 says what it says here.
Test(agent_slurm_tells, in_extra_where_the_comment_is_the_users_and_slurm_has_it) {
    const temporary_directory home;
    const std::string output = home.path() + "/job.out";
    write_file(output, "");
    const fake_scontrol fake(line_with_output("run 12, ask Ada", output));
    const slurm client = fake.client();
    cr_assert(client.comment("varde: step 12 durable").has_value());
    cr_assert_eq(fake.asked(), "<update><jobid=7><extra=varde: step 12 durable>\n");
    for (const char* extra : {"varde: old", "theirs"}) {
        const fake_scontrol more("JobId=7 MCS_label=N/A JobState=RUNNING Comment=run 12 Extra=" + std::string(extra) +
                                 " StdErr=/x StdIn=/y StdOut=/x \n");
        write_file(more.asked_path(), "");
        cr_assert(more.client().comment("varde: x").has_value());
        cr_assert_eq(more.asked(), std::string(extra) == "theirs" ? "" : "<update><jobid=7><extra=varde: x>\n");
    }
}

Test(agent_slurm_tells, asks_a_slurm_without_extra_once) {
    const temporary_directory home;
    const fake_scontrol fake(line_with_output("run 12, ask Ada", home.path() + "/none"),
                             "case \"$*\" in *extra=*) echo x >> \"$here/tries\"; echo 'Update of this parameter is "
                             "not supported: extra=varde'; echo 'Request aborted'; exit 1;; esac");
    const slurm client = fake.client();
    for (int i = 0; i < 3; i++) cr_assert(client.comment("varde: x").has_value(), "nothing to complain of");
    cr_assert_eq(fake.tries(), "x\n");
}

Test(agent_slurm_tells, in_the_output_alone_where_the_comment_is_the_users) {
    const temporary_directory home;
    const std::string output = home.path() + "/job.out";
    write_file(output, "");
    const fake_scontrol fake(
        line_with_output("run 12, ask Ada", output),
        "case \"$*\" in *extra=*) echo 'Update of this parameter is not supported'; exit 1;; esac");
    cr_assert(fake.client().tell("varde: x").has_value());
    cr_assert_eq(read_file(output), "varde: x\n");
    cr_assert_eq(fake.asked(), "", "the user's comment stays");
}

Test(agent_slurm_tells, makes_no_file_and_writes_to_no_pipe) {
    const temporary_directory home;
    const std::string pipe = home.path() + "/pipe";
    cr_assert_eq(::mkfifo(pipe.c_str(), 0600), 0);
    const unique_fd reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    for (const std::string& path : {home.path() + "/missing", pipe, home.path()}) {
        const fake_scontrol fake(line_with_output("", path));
        cr_assert(!fake.client().tell("varde: x"), "%s", path.c_str());
        cr_assert_eq(fake.asked(), "<update><jobid=7><comment=varde: x>\n", "the comment is set all the same");
    }
    char none = 0;
    cr_assert(::read(reader.get(), &none, 1) <= 0);
    cr_assert(::access((home.path() + "/missing").c_str(), F_OK) != 0);
}

Test(agent_slurm_calls, end_when_scontrol_hangs) {
    const fake_scontrol fake(line_of_22("JobId=7", "train", "RUNNING", 2, ""), "sleep 60");
    const uint64_t start_ns = mono_ns();
    refused(fake.client(7, 200).requeue(2, "varde: x"), code::timeout);
    cr_assert(mono_ns() - start_ns < 5 * ns_per_s);
    cr_assert_eq(fake.asked(), "");
}

Test(agent_slurm_calls, are_unavailable_without_slurm) {
    cr_assert(!slurm("", 7).present());
    cr_assert(!slurm("/usr/bin", 0).present());
    refused(slurm("", 7).requeue(0, "varde: x"), code::unavailable);
    refused(slurm("/nonexistent", 7).comment("varde: x"), code::not_found, "/nonexistent/scontrol");
}
