// Whether a file takes O_DIRECT transfers: what the kernel says, what a trial says, and what neither can mean.
#include "forbid.h"
#include "io/direct.h"
#include "io_support.h"

using namespace io_test;
using test::forbid;

namespace {

struct statx said(uint32_t mask, uint32_t memory_alignment, uint32_t offset_alignment) {
    struct statx about {};
    about.stx_mask = mask;
    about.stx_dio_mem_align = memory_alignment;
    about.stx_dio_offset_align = offset_alignment;
    return about;
}

}  // namespace

Test(io_direct, alignment_up_to_a_page_is_what_we_have) {
    constexpr uint32_t told = STATX_DIOALIGN | STATX_BASIC_STATS;
    cr_assert(direct_answer_of(said(told, 4, 512)) == direct_answer::works);
    cr_assert(direct_answer_of(said(told, 4096, 4096)) == direct_answer::works);
    cr_assert(direct_answer_of(said(told, 0, 0)) == direct_answer::refused, "the kernel's way to say never");
    cr_assert(direct_answer_of(said(told, 512, 8192)) == direct_answer::refused);
    cr_assert(direct_answer_of(said(told, 65536, 4096)) == direct_answer::refused);
    cr_assert(direct_answer_of(said(told, 3, 4096)) == direct_answer::refused);
    cr_assert(direct_answer_of(said(STATX_BASIC_STATS, 0, 0)) == direct_answer::unknown);
}

Test(io_direct, file_that_takes_a_direct_write_is_said_to) {
    temporary_directory at;
    const unique_fd fd(::open((at.path + "/file").c_str(), O_CREAT | O_RDWR | O_DIRECT | O_CLOEXEC, 0600));
    if (!fd) cr_skip_test("no O_DIRECT here");
    const mapping page = make_memory(4096, 1);
    const bool works = ::pwrite(fd.get(), page.data(), 4096, 0) == 4096;
    cr_assert_eq(takes_direct_writes(fd.get()), works);
    if (ask_direct(fd.get()) != direct_answer::unknown)
        cr_assert_eq(ask_direct(fd.get()) == direct_answer::works, works, "the kernel keeps its word");
}

Test(io_direct, trial_decides_where_the_kernel_keeps_silent) {
    temporary_directory at;
    for (const int os_errno : {0, EINVAL, EOPNOTSUPP, ENOSPC, EIO}) {
        const int status = in_child([&]() {
            const unique_fd fd = open_file(at.path + "/file", O_CREAT | O_RDWR);
            if (!forbid(SYS_statx, ENOSYS)) return 77;
            if (ask_direct(fd.get()) != direct_answer::unknown) return 10;
            if (os_errno != 0 && !forbid(SYS_pwrite64, os_errno)) return 77;
            const bool refused = os_errno == EINVAL || os_errno == EOPNOTSUPP;
            return takes_direct_writes(fd.get()) == !refused ? 0 : 11;
        });
        if (status == 77) cr_skip_test("no seccomp here");
        cr_assert_eq(status, 0, "errno %d: %d", os_errno, status);
    }
}
