// Users against the node: an agent that does everything but end, a run directory that is full or prepared by somebody,
// and words of every kind.
#include "prolog_setup_support.h"

#include "base/units.h"

#include <map>

#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

using namespace setup_test;

TestSuite(hostile, .init = setup, .fini = teardown, .timeout = 60);

// ---- An agent that lies to the epilog

static void expect_ended(const state& made, int drain_ms) {
    const auto ended = end_job(where.run_directory, job_id, drain_ms);
    cr_assert(ended.has_value(), "%s", ended ? "" : ended.error().context.c_str());
    expect_nothing_left(made);
}

// Processes that are other ones each time somebody looks: whoever kills by number may come too late for ever.
Test(hostile, an_agent_that_forks_away_for_ever_ends) {
    AS_ROOT();
    const state made = ready_agent(
        "for i in 1 2 3 4 5 6 7 8; do perl -MPOSIX=setsid -e "
        "'for (;;) { exit if fork; setsid }' </dev/null & done\n"
        "echo ready >&4; exec sleep 60");
    if (!made.cgroup) cr_skip_test("no memory control group: %s", made.cgroup_reason.c_str());
    expect_ended(made, 100);
}

// And more of them than one round of kills takes.
Test(hostile, an_agent_with_many_processes_ends) {
    AS_ROOT();
    write_text(where.config, "prolog: {ready_ms: 30000}\n", 0644);
    const state made = ready_agent(
        "for ((i = 0; i < 600; i++)); do setsid sleep 61 & done\n"
        "echo ready >&4; exec sleep 60");
    if (!made.cgroup) cr_skip_test("no memory control group: %s", made.cgroup_reason.c_str());
    expect_ended(made, 0);
}

Test(hostile, an_agent_has_only_so_many_processes) {
    AS_ROOT();
    const state made = ready_agent();
    const std::string pids = "/sys/fs/cgroup/pids/varde/" + std::to_string(job_id);
    const std::string group = exists(pids) ? pids : made.cgroup ? *cgroup_path(job_id) : "";
    if (!exists(group + "/pids.max")) cr_skip_test("this host counts no tasks");
    cr_assert(read_text(group + "/pids.max") == "4096\n");
    cr_assert(read_text(group + "/cgroup.procs") == std::to_string(made.agent_pid) + "\n");
    expect_ended(made, 0);
    cr_assert(!exists(group));
}

Test(hostile, an_agent_that_says_that_it_has_drained_and_stays_is_killed) {
    AS_ROOT();
    const state made = ready_agent(
        "trap 'echo drained; exec 3>&- 4>&-' TERM; echo ready >&4; exec 4>&-\n"
        "while :; do sleep 0.1; done");
    expect_ended(made, 300);
}

// Stopped by its user, or by itself: it goes on, because the word to end is not to be seen else.
Test(hostile, an_agent_that_is_stopped_drains_and_one_that_stops_itself_is_killed) {
    AS_ROOT();
    cr_assert(::mkdir((folder + "/shared").c_str(), 0777) == 0 && ::chmod((folder + "/shared").c_str(), 0777) == 0);
    const state stopped = ready_agent("trap 'echo drained >" + folder +
                                      "/shared/drained; exit 0' TERM; echo ready >&4\n"
                                      "while :; do sleep 0.1; done");
    cr_assert_eq(::kill(stopped.agent_pid, SIGSTOP), 0);
    expect_ended(stopped, 10'000);
    cr_assert(read_text(folder + "/shared/drained") == "drained\n");
    const state again = ready_agent("trap 'kill -STOP $$' TERM; echo ready >&4; while :; do sleep 0.1; done");
    expect_ended(again, 300);
}

// The ready line: bytes of a user's process.
Test(hostile, what_the_agent_says_is_one_line_of_bounded_length) {
    AS_ROOT();
    for (const char* words : {"printf 'degraded a\\033[2Jb\\rc\\n' >&4; sleep 60",
                              "head -c 100000 /dev/zero | tr '\\0' y >&4; sleep 60", "head -c 4000 /dev/urandom >&4"}) {
        agent_script(words);
        const state made = set_up(asked(), job_id, where);
        cr_assert(!made.ready && !made.reason.empty() && made.reason.size() < 1100);
        cr_assert(made.reason == printable(made.reason, 1100), "%s", made.reason.c_str());
        cr_assert(end_job(where.run_directory, job_id, 0).has_value());
        expect_nothing_left(made);
    }
}

// A large arena is given back page by page, longer than a process that the kernel holds would be waited for.
Test(hostile, a_process_that_still_gives_memory_back_is_waited_for) {
    const size_t size_bytes = 1ULL << 30;
    int filled[2];
    cr_assert_eq(::pipe(filled), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        ::setsid();
        void* at = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        for (size_t i = 0; i < size_bytes; i += 4096) static_cast<volatile char*>(at)[i] = 1;
        discard(static_cast<int>(::write(filled[1], "f", 1)), "then the test waits for ever");
        for (;;) ::pause();
    }
    char byte = 0;
    cr_assert_eq(::read(filled[0], &byte, 1), 1);
    const auto ended = end_session({child, read_process(child)->start_ticks}, ::geteuid(), 100);
    cr_assert(ended.has_value(), "%s", ended ? "" : ended.error().context.c_str());
    cr_assert_eq(::waitpid(child, nullptr, 0), child);
}

// ---- The run directory

// A file system of the test's own in the run directory's place, of so many bytes.
static void mount_run(const char* options) {
    cr_assert_eq(::mkdir(where.run_directory.c_str(), 0755), 0);
    cr_assert_eq(::mount("tmpfs", where.run_directory.c_str(), "tmpfs", 0, options), 0);
}

static void fill_run() {
    const std::string path = where.run_directory + "/filler";
    const unique_fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const std::string bytes(4096, 'x');
    while (::write(file.get(), bytes.data(), bytes.size()) > 0) {}
}

// /run is small, and users may fill what is on it elsewhere.
Test(hostile, a_full_run_directory_degrades_and_nothing_is_left) {
    AS_ROOT();
    mount_run("size=64k,mode=755");
    agent_script("echo ready >&4; exec sleep 60");
    fill_run();
    const state made = set_up(asked(), job_id, where);
    cr_assert(!made.ready && made.reason.find("No space left") != std::string::npos, "%s", made.reason.c_str());
    cr_assert(made.agent_pid == 0 && !exists(job_path() + "/agent.sock"));
    cr_assert_eq(::unlink((where.run_directory + "/filler").c_str()), 0);
    const state later = set_up(asked(), job_id, where);
    cr_assert(later.ready, "%s", later.reason.c_str());
    fill_run();
    expect_ended(later, 1000);
    cr_assert_eq(::umount2(where.run_directory.c_str(), MNT_DETACH), 0);
}

Test(hostile, a_run_directory_without_inodes_degrades) {
    AS_ROOT();
    mount_run("nr_inodes=2,mode=755");
    agent_script("echo ready >&4; exec sleep 60");
    const state made = set_up(asked(), job_id, where);
    cr_assert(!made.ready && !made.reason.empty() && made.agent_pid == 0);
    cr_assert(end_job(where.run_directory, job_id, 0).has_value());
    expect_nothing_left(made);
    cr_assert_eq(::umount2(where.run_directory.c_str(), MNT_DETACH), 0);
}

// A link, a pipe, a device or a file of somebody else in the place of each name that root reads or writes there.
Test(hostile, what_somebody_has_put_in_roots_place_is_not_followed) {
    AS_ROOT();
    const std::string victim = folder + "/victim";
    for (const char* name : {"state.json", "state.json.new", "agent.sock", "plan", "plan.new", "huge_pages"}) {
        for (const bool pipe : {false, true}) {
            write_text(victim, "precious\n", 0600);
            const auto directory = job_directory::create(where.run_directory, job_id);
            cr_assert(directory.has_value());
            const std::string path = job_path() + "/" + name;
            cr_assert_eq(pipe ? ::mkfifo(path.c_str(), 0666) : ::symlink(victim.c_str(), path.c_str()), 0);
            const state made = ready_agent();
            struct stat about {};
            cr_assert(::lstat(victim.c_str(), &about) == 0 && about.st_uid == 0 && (about.st_mode & 0777) == 0600);
            cr_assert(read_text(victim) == "precious\n", "'%s'", name);
            expect_ended(made, 0);
            cr_assert(read_text(victim) == "precious\n", "'%s'", name);
        }
    }
}

// ---- Words

static std::map<std::string, std::string> words;
static const char* word(const char* name) {
    const auto found = words.find(name);
    return found == words.end() ? nullptr : found->second.c_str();
}

static void expect_harmless(const std::string& name, const std::string& text) {
    words = {{"SLURM_JOB_ID", std::to_string(job_id)},
             {"SLURM_JOB_UID", "61234"},
             {"SLURM_JOB_GID", "61234"},
             {"SPANK_VARDE_INTERVAL", "1m"},
             {"SPANK_VARDE_MEMORY", "1M"}};
    words[name] = text;
    const state made = set_up(read_request(word), job_id, where);
    const std::string shown = name + "=" + printable(text);
    cr_assert(made.reason == printable(made.reason, 4096), "%s: %s", shown.c_str(), made.reason.c_str());
    cr_assert(made.ready || !made.reason.empty(), "%s", shown.c_str());
    cr_assert(made.ready || made.agent_pid == 0, "%s", shown.c_str());
    cr_assert(made.directory_problem == printable(made.directory_problem, 4096), "%s", shown.c_str());
    const auto directory = job_directory::open(where.run_directory, job_id);
    cr_assert(directory.has_value() && read_state(*directory).has_value(), "%s", shown.c_str());
    cr_assert(end_job(where.run_directory, job_id, 0).has_value());
    expect_nothing_left(made);
}

// Bytes of every kind, numbers that overflow, shells' and Slurm's own characters, and great lengths: wherever a user
// can write.
Test(hostile, words_of_every_kind_are_harmless, .timeout = 300) {
    AS_ROOT();
    agent_script("echo ready >&4; exec sleep 60");
    const std::vector<std::string> texts = {"-1",
                                            "18446744073709551615",
                                            "18446744073709551616",
                                            "15.9E",
                                            "1e30",
                                            "0%",
                                            "4294967297%",
                                            "18446744073709551617%",
                                            "1M\n/etc",
                                            "\xff\xfe\x80",
                                            "$(touch /tmp/varde-owned)",
                                            "../../../etc",
                                            "%u%j%x%%%",
                                            "/" + std::string(5000, 'a'),
                                            std::string(100'000, '9')};
    for (const option_rule& rule : option_rules())
        for (const std::string& text : texts) expect_harmless(std::string("SPANK_VARDE_") + rule.variable, text);
    for (const char* name : {"SLURM_JOB_NAME", "SLURM_JOB_WORK_DIR", "SLURM_JOB_USER"})
        for (const std::string& text : texts) expect_harmless(name, text);
    cr_assert(!exists("/tmp/varde-owned"));
}

// ---- Other users

// Every name below is root's, and the socket is the job's user's.
Test(hostile, a_user_can_make_nothing_in_the_run_directory) {
    AS_ROOT();
    const state made = ready_agent();
    const pid_t child = ::fork();
    if (child == 0) {
        if (::setresgid(user + 1, user + 1, user + 1) != 0 || ::setresuid(user + 1, user + 1, user + 1) != 0)
            ::_exit(2);
        bool done = ::mkdir((where.run_directory + "/99").c_str(), 0700) == 0 ||
                    ::symlink("/etc", (job_path() + "/state.json.new").c_str()) == 0 ||
                    ::unlink((job_path() + "/agent.sock").c_str()) == 0 ||
                    ::rename((job_path() + "/state.json").c_str(), (job_path() + "/x").c_str()) == 0 ||
                    ::open((where.run_directory + "/huge_pages.lock").c_str(), O_RDWR | O_CREAT, 0600) >= 0;
        const unique_fd socket(::socket(AF_UNIX, SOCK_STREAM, 0));
        sockaddr_un address{AF_UNIX, ""};
        (job_path() + "/agent.sock").copy(address.sun_path, sizeof address.sun_path - 1);
        done |= ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
        ::_exit(done ? 1 : 0);
    }
    int status = 0;
    cr_assert_eq(::waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%d", status);
    expect_ended(made, 0);
}
