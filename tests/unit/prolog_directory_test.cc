// The checkpoint directory as the prolog sees it: every way in which it can be of no use has one clear line, none holds
// up the prolog, and none takes the agent away.
#include "mounts.h"
#include "prolog/directory_probe.h"
#include "prolog_setup_support.h"

#include <thread>

using namespace setup_test;
using varde::test::hung_mount;
using varde::test::own_mounts;
using varde::test::scoped_mount;

TestSuite(directory, .init = setup, .fini = teardown, .timeout = 60);

static std::string place() { return folder + "/flash"; }

static void make(const std::string& path, mode_t mode, uid_t owner) {
    cr_assert(::mkdir(path.c_str(), 0700) == 0 && ::chmod(path.c_str(), mode) == 0);
    cr_assert_eq(::chown(path.c_str(), owner, owner), 0);
}

static request job_of(const std::string& directory, const char* name = "") {
    request job = *asked();
    job.wish.directory = directory;
    job.wish.name = name;
    return job;
}

// What the user sees there.
static std::string problem_of(const request& job) {
    state made;
    made.arena_bytes = 1 << 20;
    auto probe = directory_probe::begin(job, made);
    cr_assert(made.directory == job.wish.directory && made.probe.pid > 0);
    probe.finish(job, 10'000, made);
    cr_assert_eq(made.probe.pid, 0, "nothing is left of it");
    cr_assert_eq(made.directory_problem.find('\n'), std::string::npos);
    return made.directory_problem;
}

static void expect(const request& job, std::initializer_list<const char*> parts) {
    const std::string problem = problem_of(job);
    cr_assert(parts.size() > 0 || problem.empty(), "%s", problem.c_str());
    for (const char* part : parts)
        cr_assert(problem.find(part) != std::string::npos, "'%s' lacks '%s'", problem.c_str(), part);
}

Test(directory, a_good_one_has_no_problem_and_is_left_as_it_was) {
    AS_ROOT();
    make(place(), 01777, 0);
    expect(job_of(place(), "llama"), {});
    expect(job_of(place() + "/a/b", "llama"), {});
    cr_assert(std::filesystem::is_empty(place()), "what is missing is the agent's to make");
    make(place() + "/llama", 0700, user);
    expect(job_of(place(), "llama"), {});
    ::chmod(place().c_str(), 0755);
    expect(job_of(place(), "llama"), {});
}

Test(directory, missing_and_not_to_be_made) {
    AS_ROOT();
    make(place(), 0755, 0);
    expect(job_of(place() + "/a/b"), {"checkpoint directory '", "/flash/a/b'", "it is not there", "user 61234 may not",
                                      "make it in '", "/flash': Permission denied", "the job starts", "--ckpt-dir"});
    cr_assert_eq(::symlink("nowhere", (place() + "/link").c_str()), 0);
    expect(job_of(place() + "/link"), {"is a link that leads nowhere"});
}

Test(directory, not_writable) {
    AS_ROOT();
    make(place(), 0755, 0);
    expect(job_of(place()), {"user 61234 may not make a run in it: Permission denied", "the job starts"});
    make(place() + "/llama", 0500, user);
    expect(job_of(place(), "llama"), {"may not write to the run's directory 'llama'", "Permission denied"});
}

Test(directory, not_to_be_entered_or_no_directory) {
    AS_ROOT();
    make(place(), 0700, 0);
    make(place() + "/in", 0777, 0);
    expect(job_of(place() + "/in"), {"user 61234 may not enter '", "Permission denied"});
    write_text(folder + "/file", "", 0644);
    expect(job_of(folder + "/file"), {"is no directory"});
    expect(job_of(folder + "/file/in"), {"/file/in' or a part of it is no directory"});
}

Test(directory, a_run_of_somebody_else) {
    AS_ROOT();
    make(place(), 01777, 0);
    make(place() + "/llama", 0777, 0);
    expect(job_of(place(), "llama"),
           {"the run's directory 'llama' in it belongs to user 0, not to user 61234", "--ckpt-name"});
    cr_assert_eq(::symlink("/tmp", (place() + "/link").c_str()), 0);
    expect(job_of(place(), "link"), {"is a link or a file"});
}

Test(directory, read_only) {
    AS_ROOT();
    own_mounts();
    make(place(), 01777, 0);
    const scoped_mount flash("tmpfs", place(), "mode=1777");
    cr_assert_eq(::mount(nullptr, place().c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr), 0);
    expect(job_of(place()), {"may not make a run in it: Read-only file system"});
    expect(job_of(place() + "/a"), {"may not make it in '", "Read-only file system"});
}

Test(directory, full) {
    AS_ROOT();
    own_mounts();
    make(place(), 01777, 0);
    const scoped_mount flash("tmpfs", place(), "size=3M,mode=1777,nr_inodes=8");
    request job = job_of(place());
    job.node_count = 3;
    expect(job, {});
    write_text(place() + "/data", std::string(1 << 19, 'x'), 0600);
    expect(job, {"is nearly full", "up to 3 MiB (3 x --ckpt-memory)", "2.5 MiB of 3 MiB are free", "the job starts"});
    for (int i = 0; i < 8; i++) write_text(place() + "/" + std::to_string(i), "", 0600);
    job.node_count = 1;
    expect(job, {"no room for another file", "inodes"});
}

Test(directory, a_size_that_overflows_is_large) {
    const directory_view view{"", true, 1 << 20, 1 << 21, ""};
    cr_assert(describe_space(view, UINT64_MAX / 2, 3).find("1 MiB of 2 MiB") != std::string::npos);
    cr_assert(describe_space({"", false, 0, 0, ""}, 1, 1).empty(), "a file system that has no size");
}

static std::vector<std::string> descriptors_of(pid_t pid) {
    std::vector<std::string> found;
    for (const auto& each : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd"))
        found.push_back(std::filesystem::read_symlink(each).string().substr(0, 9));
    std::sort(found.begin(), found.end());
    return found;
}

// A mount that never answers: the probe can be killed, and is.
Test(directory, a_mount_that_hangs_is_named_within_the_deadline) {
    AS_ROOT();
    own_mounts();
    make(place(), 01777, 0);
    const hung_mount hung(place());
    write_text(where.config, "prolog: {ready_ms: 20000, probe_s: 1}\n", 0644);
    agent_script("echo ready >&4; exec sleep 60");
    const request job = job_of(place() + "/a");
    const state made = set_up(job, job_id, where);
    cr_assert(made.ready && agent_alive(made), "%s", made.reason.c_str());
    cr_assert(made.directory_problem.find("did not answer within 1 s: its file system hangs; the job starts") !=
                  std::string::npos,
              "%s", made.directory_problem.c_str());
    cr_assert_eq(made.probe.pid, 0);
    const auto directory = job_directory::open(where.run_directory, job_id);
    cr_assert(*read_state(*directory) == made);
    cr_assert(set_up(job, job_id, where) == made, "the second prolog does not ask again");
}

// A daemon that took the question and died over it: the kernel holds who asked.
Test(directory, a_probe_that_the_kernel_holds_is_named_and_keeps_nothing) {
    AS_ROOT();
    own_mounts();
    make(place(), 01777, 0);
    hung_mount hung(place());
    hung.begin_to_work();
    std::thread daemon([&hung] { hung.take_request(); });
    write_text(where.config, "prolog: {ready_ms: 20000, probe_s: 1}\n", 0644);
    const int leaked = ::open("/etc/passwd", O_RDONLY);  // without close-on-exec, as slurmd's may be
    agent_script("echo ready >&4; exec sleep 60");
    const state made = set_up(job_of(place()), job_id, where);
    daemon.join();
    ::close(leaked);
    cr_assert(made.ready, "%s", made.reason.c_str());
    cr_assert(made.directory_problem.find("hangs") != std::string::npos, "%s", made.directory_problem.c_str());
    const auto held = read_process(made.probe.pid);
    cr_assert(held.has_value() && held->session == made.probe.pid && held->start_ticks == made.probe.start_ticks);
    const std::string status = read_text("/proc/" + std::to_string(made.probe.pid) + "/status");
    cr_assert(status.find("Uid:\t61234\t61234\t61234\t61234") != std::string::npos, "%s", status.c_str());
    const auto descriptors = descriptors_of(made.probe.pid);
    cr_assert_eq(descriptors.size(), 4);
    for (size_t i = 0; i < 3; i++) cr_assert(descriptors[i] == "/dev/null", "%s", descriptors[i].c_str());
    cr_assert(descriptors[3].starts_with("pipe:"), "%s", descriptors[3].c_str());
    // The next start finds it, and the epilog takes everything else away.
    cr_assert(set_up(*asked(1), job_id, where).ready);
    cr_assert(end_job(where.run_directory, job_id, 1000).has_value());
    expect_nothing_left(made);
    hung.answer_nothing_more();
    cr_assert(::waitpid(made.probe.pid, nullptr, 0) == made.probe.pid, "SIGKILL was waiting for it");
}

Test(place, follows_the_options_and_what_slurm_tells) {
    request job;
    job.job_id = 7;
    job.uid = 1000;
    job.user = "anna";
    cr_assert(!place_of(job).has_value(), "the working directory is not known");
    job.work_directory = "/home/anna";
    cr_assert(place_of(job)->directory == "/home/anna/checkpoints");
    job.wish.directory = "ckpt/%j";
    cr_assert(place_of(job)->directory == "/home/anna/ckpt/7");
    job.wish.directory = "/flash/%u/%%x/%j";
    job.wish.name = "llama";
    cr_assert(place_of(job)->directory == "/flash/anna/%x/7" && place_of(job)->run_name == "llama");
    job.wish.directory = "/flash/%u/%%%x-a/b";
    cr_assert(place_of(job)->directory == "/flash/anna" && place_of(job)->run_name.empty(), "up to what is known");
    job.job_name = "a/b";
    cr_assert(place_of(job)->directory == "/flash/anna/%a_b-a/b" && place_of(job)->run_name == "llama");
    job.job_name.clear();
    for (const char* unknown : {"/%x/b", "%x", "/%x"}) {
        job.wish.directory = unknown;
        cr_assert(!place_of(job).has_value(), "%s", unknown);
    }
    job.wish.directory = std::string(4094, 'a');
    cr_assert(!place_of(job).has_value(), "longer than a path may be");
}

Test(place, an_answer_that_is_cut_or_foreign_is_refused) {
    const directory_view view{"/flash/a", true, 5, 9, "a problem"};
    const std::string bytes = encode_view(view);
    const auto again = decode_view(bytes);
    cr_assert(again.has_value() && again->real_path == "/flash/a" && again->sized && again->free_bytes == 5 &&
              again->total_bytes == 9 && again->problem == "a problem");
    for (size_t length = 0; length < bytes.size(); length++)
        cr_assert(!decode_view(std::string_view(bytes).substr(0, length)).has_value(), "%zu", length);
    cr_assert(!decode_view(bytes + "x").has_value());
    std::string words = bytes;
    words.replace(words.find('5'), 1, "x");
    cr_assert(!decode_view(words).has_value());
}
