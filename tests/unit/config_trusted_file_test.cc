// Which files are believed.  The cases that need a foreign owner run only as root.
#include "config/config.h"
#include "config/trusted_file.h"

#include <criterion/criterion.h>
#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

using namespace varde;

static std::string folder;

static void setup() {
    char path[] = "/tmp/varde-config-XXXXXX";
    cr_assert(::mkdtemp(path) != nullptr);
    folder = path;
}
static void teardown() {
    for (const char* name : {"/file", "/link", "/pipe"}) ::unlink((folder + name).c_str());
    ::rmdir(folder.c_str());
}
TestSuite(trusted_file, .init = setup, .fini = teardown);

static std::string write_file(const std::string& text, mode_t mode) {
    const std::string path = folder + "/file";
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    cr_assert_geq(fd, 0);
    cr_assert_eq(::write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    cr_assert_eq(::fchmod(fd, mode), 0);
    ::close(fd);
    return path;
}

static void expect_refused(const std::string& path, const char* reason) {
    auto text = read_trusted_file(AT_FDCWD, path, path, 100);
    cr_assert(!text.has_value(), "%s was read", path.c_str());
    cr_assert(text.error().context.find(path) != std::string::npos, "%s", text.error().context.c_str());
    cr_assert(text.error().context.find(reason) != std::string::npos, "%s", text.error().context.c_str());
}

Test(trusted_file, reads_ones_own_file) {
    const std::string path = write_file(std::string(100, 'x'), 0644);
    auto text = read_trusted_file(AT_FDCWD, path, path, 100);
    cr_assert(text.has_value() && *text == std::string(100, 'x'));
}

Test(trusted_file, refuses_what_others_may_write) {
    expect_refused(write_file("a", 0664), "chmod go-w");
    expect_refused(write_file("a", 0646), "chmod go-w");
}

Test(trusted_file, refuses_a_foreign_owner) {
    if (::geteuid() != 0) return;
    const std::string path = write_file("a", 0644);
    cr_assert_eq(::chown(path.c_str(), 1000, 0), 0);
    expect_refused(path, "root must own it");
}

Test(trusted_file, refuses_links_pipes_directories_and_long_files) {
    const std::string path = write_file(std::string(101, 'x'), 0644);
    expect_refused(path, "too long");
    cr_assert_eq(::symlink("file", (folder + "/link").c_str()), 0);
    expect_refused(folder + "/link", "symbolic link");
    cr_assert_eq(::mkfifo((folder + "/pipe").c_str(), 0600), 0);
    expect_refused(folder + "/pipe", "regular file");
    expect_refused(folder, "regular file");
}

Test(trusted_file, a_missing_file_is_not_found) {
    auto text = read_trusted_file(AT_FDCWD, folder + "/none", "none", 100);
    cr_assert(!text.has_value() && text.error().what == code::not_found);
}

Test(trusted_file, a_missing_configuration_is_the_defaults_and_a_wrong_one_an_error) {
    auto missing = load_config(folder + "/none");
    cr_assert(missing.has_value() && *missing == config{});
    auto below_missing = load_config(folder + "/none/varde.yaml");
    cr_assert(below_missing.has_value() && *below_missing == config{});
    cr_assert(load_config(write_file("agent: {chunk: 8M}", 0644))->chunk_bytes == 8ULL << 20);
    cr_assert(!load_config(write_file("agent: {chunk: 8M}", 0666)).has_value());
    cr_assert(!load_config(write_file("agent: {chunk: 7M}", 0644)).has_value());
}
