// Mounts in a namespace of the test's own, which end with their variables; one has a file system that says nothing:
// FUSE without a daemon behind it.
#pragma once

#include <criterion/criterion.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <string>
#include <cstdlib>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

namespace varde::test {

inline void own_mounts() {
    cr_assert_eq(::unshare(CLONE_NEWNS), 0);
    cr_assert_eq(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
}

// One file of the host replaced.  After own_mounts().
inline void replace_file(const char* path, const std::string& text) {
    char other[] = "/tmp/varde-file-XXXXXX";
    const int file = ::mkstemp(other);
    cr_assert_eq(::write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    cr_assert(::fchmod(file, 0644) == 0 && ::mount(other, path, nullptr, MS_BIND, nullptr) == 0);
    ::close(file);
    ::unlink(other);
}

class scoped_mount {
public:
    scoped_mount(const char* type, const std::string& path, const char* options) : path_(path) {
        cr_assert_eq(::mount(type, path.c_str(), type, 0, options), 0);
    }
    ~scoped_mount() { ::umount2(path_.c_str(), MNT_DETACH); }
    scoped_mount(const scoped_mount&) = delete;
    scoped_mount& operator=(const scoped_mount&) = delete;

private:
    std::string path_;
};

class hung_mount {
public:
    // On the directory `path`.  After own_mounts().  `source` and `type` are what mountinfo says of it; `owner` is who
    // has mounted it.
    explicit hung_mount(const std::string& path, const char* source = "hung", const char* type = "fuse",
                        uid_t owner = 0)
        : path_(path), device_(::open("/dev/fuse", O_RDWR | O_CLOEXEC)) {
        const std::string options = "fd=" + std::to_string(device_) +
                                    ",rootmode=40000,user_id=" + std::to_string(owner) + ",group_id=0,allow_other";
        cr_assert(device_ >= 0 && ::mount(source, path.c_str(), type, 0, options.c_str()) == 0);
    }
    ~hung_mount() {
        answer_nothing_more();
        ::umount2(path_.c_str(), MNT_DETACH);
    }
    hung_mount(const hung_mount&) = delete;
    hung_mount& operator=(const hung_mount&) = delete;

    // As a daemon that begins to work and then hangs: who asks now is held by the kernel, SIGKILL or not.
    void begin_to_work() const {
        char request[FUSE_MIN_READ_BUFFER];
        cr_assert(::read(device_, request, sizeof request) >= static_cast<ssize_t>(sizeof(fuse_in_header)));
        struct {
            fuse_out_header head{};
            fuse_init_out body{};
        } answer;
        answer.head.len = sizeof answer;
        answer.head.unique = reinterpret_cast<const fuse_in_header*>(request)->unique;
        answer.body.major = FUSE_KERNEL_VERSION;
        answer.body.minor = FUSE_KERNEL_MINOR_VERSION;
        answer.body.max_write = 4096;
        cr_assert_eq(::write(device_, &answer, sizeof answer), static_cast<ssize_t>(sizeof answer));
    }

    // Takes one request and leaves it at that.
    void take_request() const {
        pollfd waited{device_, POLLIN, 0};
        char request[FUSE_MIN_READ_BUFFER];
        cr_assert(::poll(&waited, 1, 10'000) == 1 && ::read(device_, request, sizeof request) > 0);
    }

    // The end of the connection lets go of everybody who waits.
    void answer_nothing_more() {
        if (device_ >= 0) ::close(device_);
        device_ = -1;
    }

private:
    std::string path_;
    int device_;
};

}  // namespace varde::test
