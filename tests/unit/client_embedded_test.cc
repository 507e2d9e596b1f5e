// Starting an agent of our own: where it lives, what is found, and what is said when it does not start.
#include "client/embedded.h"
#include "client_fake_agent.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <fstream>
#include <sys/stat.h>

using namespace varde;
using namespace varde::client;
using namespace varde::test;

namespace {

std::map<std::string, std::string> table;

const char* get(const char* name) {
    const auto found = table.find(name);
    return found == table.end() ? nullptr : found->second.c_str();
}

// A directory of our own instead of /tmp/varde-UID, and a program instead of the agent.
std::string scene(const std::string& script) {
    const std::string directory = make_directory();
    const std::string program = directory + "/agent";
    std::ofstream(program) << "#!/bin/sh\n" << script;
    ::chmod(program.c_str(), 0700);
    table = {{"XDG_RUNTIME_DIR", directory}, {"VARDE_AGENT", program}};
    return directory;
}

void remove(const std::string& directory) { cr_assert(::system(("rm -rf " + directory).c_str()) == 0); }

result<embedded_agent> connect(uint64_t ms = 2000) {
    return embedded_connect("test 1", "host", get, deadline::in_ms(ms));
}

}  // namespace

Test(client_embedded, an_agent_that_fails_is_quoted) {
    const auto directory = scene("echo first line >&2; echo 'no memory to lock' >&2; exit 3");
    const auto made = connect();
    cr_assert(made.error().what == code::unavailable);
    cr_assert(made.error().context.find("exit code 3") != std::string::npos, "%s", made.error().context.c_str());
    cr_assert(made.error().context.find("no memory to lock") != std::string::npos);
    cr_assert(made.error().context.find("first line") == std::string::npos);
    remove(directory);
}

Test(client_embedded, an_agent_that_hangs_is_ended) {
    const auto directory = scene("exec sleep 600");
    const auto begun = mono_ns();
    cr_assert(connect(300).error().what == code::timeout);
    cr_assert(mono_ns() - begun < 3 * ns_per_s);
    remove(directory);
}

Test(client_embedded, an_agent_that_ends_well_but_does_not_listen_is_noticed) {
    const auto directory = scene("exit 0");
    cr_assert(!connect(300));
    remove(directory);
}

Test(client_embedded, a_missing_program_is_named) {
    const auto directory = scene("");
    table["VARDE_AGENT"] = "/no/such/agent";
    const auto made = connect();
    cr_assert(!made && made.error().context.find("/no/such/agent") != std::string::npos);
    remove(directory);
}

Test(client_embedded, the_program_gets_socket_and_session_and_only_standard_files_are_opened) {
    const auto directory = scene(
        "echo \"$@\" > "
        "\"$0.arguments\"; exit 1");
    cr_assert(!connect());
    std::string line;
    std::getline(std::ifstream(directory + "/agent.arguments"), line);
    cr_assert(line.starts_with("--embedded --socket " + directory + "/varde-"), "%s", line.c_str());
    cr_assert(line.ends_with(".sock"));
    remove(directory);
}

Test(client_embedded, ranks_of_one_start_find_the_same_agent) {
    const auto directory = scene("exit 1");
    discard(connect(), "only to learn where the socket would be");
    // Whoever listens there is the agent of this start.
    fake_agent agent;
    const std::string home = embedded_directory(get).value();
    std::string base;
    for (const char* name : {"sock"}) {
        const std::string find = "basename $(ls " + home + "/*.lock) .lock > " + directory + "/name";
        cr_assert(::system(find.c_str()) == 0);
        std::getline(std::ifstream(directory + "/name"), base);
        cr_assert(::symlink(agent.path().c_str(), (home + "/" + base + "." + name).c_str()) == 0);
    }
    cr_assert(connect().has_value());
    cr_assert(connect().has_value());
    cr_assert(!embedded_connect("test 2", "host", get, deadline::in_ms(2000)), "another start is not let in there");
    remove(directory);
}

Test(client_embedded, left_overs_of_dead_agents_are_swept) {
    const auto directory = scene("exit 1");
    for (const char* start : {"a", "b", "c"})
        discard(embedded_connect(start, "host", get, deadline::in_ms(2000)), "they only leave files");
    const std::string count = "ls " + embedded_directory(get).value() + " | wc -l > " + directory + "/count";
    cr_assert(::system(count.c_str()) == 0);
    int files = 0;
    std::ifstream(directory + "/count") >> files;
    cr_assert(files <= 4, "%d files", files);
    remove(directory);
}

Test(client_embedded, a_directory_that_others_may_enter_or_a_link_is_refused) {
    const auto directory = scene("exit 1");
    const std::string home = embedded_directory(get).value();
    cr_assert(::chmod(home.c_str(), 0750) == 0);
    cr_assert(embedded_directory(get).error().what == code::unavailable);
    cr_assert(::rmdir(home.c_str()) == 0);
    cr_assert(::mkdir((directory + "/elsewhere").c_str(), 0700) == 0);
    cr_assert(::symlink((directory + "/elsewhere").c_str(), home.c_str()) == 0);
    cr_assert(embedded_directory(get).error().what == code::unavailable);
    remove(directory);
}

// Squatted by another user, who would get what the ranks send.
Test(client_embedded, a_directory_of_somebody_else_is_refused) {
    if (::geteuid() != 0) cr_skip_test("needs root");
    const auto directory = scene("exit 1");
    const std::string home = embedded_directory(get).value();
    cr_assert(::chown(home.c_str(), 61234, 61234) == 0);
    cr_assert(embedded_directory(get).error().what == code::unavailable);
    cr_assert(embedded_directory(get).error().context.find("XDG_RUNTIME_DIR") != std::string::npos);
    cr_assert(connect().error().what == code::unavailable);
    remove(directory);
}

Test(client_embedded, a_runtime_directory_that_does_not_exist_here_is_passed_over) {
    table = {{"XDG_RUNTIME_DIR", "/run/user/no-such"}};
    cr_assert(embedded_directory(get).value() == "/tmp/varde-" + std::to_string(::geteuid()));
}
