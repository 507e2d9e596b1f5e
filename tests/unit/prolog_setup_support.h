// What the tests of prolog and epilog share: a folder of their own, an agent of a few lines of shell, and what must be
// left of them. As root only: they give a process to another user.
#pragma once

#include "epilog/drain.h"
#include "prolog/agent_stop.h"
#include "prolog/cgroup.h"
#include "prolog/job_directory.h"
#include "prolog/process_table.h"
#include "prolog/setup.h"
#include "topo/plan.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace setup_test {

using namespace varde;
using namespace varde::node;

constexpr uid_t user = 61234;  // nobody's, and in no database
inline std::string folder;
inline places where;
inline uint32_t job_id = 0;

inline void write_text(const std::string& path, const std::string& text, mode_t mode) {
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
}

inline std::string read_text(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

inline void setup() {
    if (::geteuid() != 0) return;
    char path[] = "/tmp/varde-prolog-XXXXXX";
    cr_assert(::mkdtemp(path) != nullptr);
    folder = path;
    ::chmod(path, 0755);
    where = {folder + "/run", folder + "/varde.yaml", folder + "/agent"};
    write_text(where.config, "prolog: {ready_ms: 2000}\n", 0644);
    // Control groups are named by job and not by folder: a number that no other test, nor a cluster on this host, has.
    job_id = 3'000'000'000U + static_cast<uint32_t>(::getpid());
}

inline void teardown() {
    if (folder.empty()) return;
    discard(end_job(where.run_directory, job_id, 0), "what a failed test left");
    std::filesystem::remove_all(folder);
}

inline void agent_script(const std::string& body) { write_text(where.agent, "#!/bin/bash\n" + body + "\n", 0755); }

inline result<request> asked(uint32_t restarts = 0) {
    request job;
    job.job_id = job_id;
    job.uid = user;
    job.gid = user;
    job.restart_count = restarts;
    job.user = "anna";
    job.wish.interval_s = 60;
    job.wish.memory_bytes = 1 << 20;
    return job;
}

inline std::string job_path() { return where.run_directory + "/" + std::to_string(job_id); }
inline bool exists(const std::string& path) {
    struct stat about {};
    return ::lstat(path.c_str(), &about) == 0;
}

inline state ready_agent(const std::string& body = "echo ready >&4; exec sleep 60") {
    agent_script(body);
    const state made = set_up(asked(), job_id, where);
    cr_assert(made.ready, "%s", made.reason.c_str());
    return made;
}

inline void expect_nothing_left(const state& made) {
    cr_assert(!agent_alive(made));
    cr_assert(!exists(job_path()));
    cr_assert(!made.cgroup || !exists(*cgroup_path(job_id)));
}

inline void expect_degraded(const state& made, const char* part) {
    cr_assert(!made.ready);
    cr_assert(made.reason.find(part) != std::string::npos, "%s", made.reason.c_str());
    const auto directory = job_directory::open(where.run_directory, job_id);
    cr_assert(directory.has_value());
    cr_assert(*read_state(*directory) == made);
}

}  // namespace setup_test

#define AS_ROOT() \
    if (::geteuid() != 0) cr_skip_test("needs root")
