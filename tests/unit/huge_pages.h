// The kernel's pools of huge pages belong to the whole machine: tests that change them or count on them take turns,
// also those of other programs.
#pragma once

#include "base/handle.h"

#include <criterion/criterion.h>
#include <cstdint>
#include <fcntl.h>
#include <fstream>
#include <sys/file.h>

namespace varde::test {

class pools_of_our_own {
public:
    pools_of_our_own() : lock_(::open("/tmp/varde-huge-pages.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
        cr_assert(lock_ && ::flock(lock_.get(), LOCK_EX) == 0, "couldn't lock the machine's huge pages");
    }

private:
    unique_fd lock_;
};

// Lets the kernel make huge pages on demand, for as long as it lives.
class huge_pages_allowed {
public:
    explicit huge_pages_allowed(uint64_t count) {
        std::ifstream(path) >> before_;
        std::ofstream(path) << before_ + count;
    }
    ~huge_pages_allowed() { std::ofstream(path) << before_; }
    huge_pages_allowed(const huge_pages_allowed&) = delete;
    huge_pages_allowed& operator=(const huge_pages_allowed&) = delete;

private:
    static constexpr const char* path = "/proc/sys/vm/nr_overcommit_hugepages";
    pools_of_our_own pools_;
    uint64_t before_ = 0;
};

}  // namespace varde::test
