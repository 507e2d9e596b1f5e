// A rank's view of the arena: parts that begin and end anywhere, on pages of any size.
#include "client/shared_part.h"

#include "huge_pages.h"

#include <criterion/criterion.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace varde;
using client::shared_part;

namespace {

constexpr uint64_t page = 4096, huge = 2 << 20;

unique_fd file_of(uint64_t size_bytes, unsigned flags) {
    unique_fd made(::memfd_create("varde-test", MFD_CLOEXEC | flags));
    cr_assert(made && ::ftruncate(made.get(), static_cast<off_t>(size_bytes)) == 0);
    return made;
}

// Bytes that are written through one part are seen through another that overlaps it.
void check(const unique_fd& file, uint64_t file_bytes) {
    const uint64_t places[][2] = {
        {0, page}, {page, page}, {3 * page, 5 * page}, {huge - page, 2 * page}, {0, 2 * huge}};
    const auto whole = shared_part::map(file.get(), 0, file_bytes);
    cr_assert(whole.has_value(), "%s", whole ? "" : whole.error().context.c_str());
    for (const auto& [offset, size_bytes] : places) {
        const auto part = shared_part::map(file.get(), offset, size_bytes);
        cr_assert(part.has_value(), "%s", part ? "" : part.error().context.c_str());
        cr_assert_eq(part->size_bytes(), size_bytes);
        part->data()[0] = std::byte{1};
        part->data()[size_bytes - 1] = std::byte{2};
        cr_assert(whole->data()[offset] == std::byte{1} && whole->data()[offset + size_bytes - 1] == std::byte{2});
    }
}

}  // namespace

Test(client_shared_part, sees_ordinary_pages) { check(file_of(2 * huge, 0), 2 * huge); }

Test(client_shared_part, sees_huge_pages) {
    cr_assert_eq(::geteuid(), 0, "this test needs root");
    const test::huge_pages_allowed allowed(2);
    check(file_of(2 * huge, MFD_HUGETLB), 2 * huge);
}

Test(client_shared_part, refuses_what_the_file_does_not_have) {
    const auto file = file_of(2 * page, 0);
    const uint64_t outside[][2] = {{0, 3 * page}, {2 * page, 1}, {3 * page, 0}, {UINT64_MAX - page, 2 * page}};
    for (const auto& [offset, size_bytes] : outside) {
        const auto part = shared_part::map(file.get(), offset, size_bytes);
        cr_assert(!part.has_value() && part.error().what == code::invalid);
    }
}
