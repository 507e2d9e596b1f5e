// Header and seal read from a file, and the read that both go through.
#include "store_support.h"
#include "store/files.h"
#include "store/pack_head.h"
#include "tests/tools/pack_bytes.h"

#include <cerrno>

using namespace store_test;

namespace {

pack::image small_image() {
    auto range = need(pack::arrange(
        3, {{.name = "weight", .type = pack::dtype::f32, .shape = {2048}, .global_shape = {}, .offset = {}}}));
    return need(pack::compose(
        {.run = "run", .step = 7, .incarnation = 2, .node_index = 0, .node_count = 1, .world = 4, .library = "0.1.0"},
        {std::move(range)}, 4096));
}

struct example {
    pack::image image = small_image();
    std::vector<std::byte> bytes = test::pack_bytes(image);
    temporary_directory at;
    std::string path = at.path() + "/pack";
    unique_fd fd;
    explicit example(size_t size_bytes = SIZE_MAX, int flags = 0) {
        const auto* text = reinterpret_cast<const char*>(bytes.data());
        write_file(path, std::string(text, std::min(size_bytes, bytes.size())));
        fd.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags));
        cr_assert(fd.get() >= 0, "%s", std::strerror(errno));
    }
};

}  // namespace

Test(pack_head, reads_what_was_written) {
    const example made;
    const pack_head head = need(read_pack_head(made.fd.get(), made.bytes.size(), made.path));
    cr_assert(head.image == made.image);
    cr_assert_eq(head.sums.size(), 2);
    cr_assert_eq(head.sums[1],
                 pack::checksum(std::span(made.bytes).subspan(made.image.ranges[0].file_offset + 4096, 4096)));
    cr_assert_eq(head.seal_checksum, pack::checksum(std::span(made.bytes).last(made.image.seal_bytes)));
}

Test(pack_head, torn_and_foreign_files_are_damaged_and_named) {
    for (const size_t size_bytes : {size_t{0}, size_t{4095}, size_t{4096}, size_t{12288}}) {
        const example made(size_bytes);
        refused(read_pack_head(made.fd.get(), size_bytes, made.path), code::damaged, made.path.c_str());
        // A file that lost its end after its size was looked at.
        refused(read_pack_head(made.fd.get(), made.bytes.size(), made.path), code::damaged, made.path.c_str());
    }
    const example made;
    refused(read_pack_head(made.fd.get(), made.bytes.size() + 4096, made.path), code::damaged, made.path.c_str());
}

Test(pack_head, names_of_files_drive_no_terminal) {
    const example made;
    const auto got = read_pack_head(made.fd.get(), 5, "a\x1b[2J");
    refused(got, code::damaged, "pack 'a\\x1b[2J': the file has only 5 B");
}

// An odd place in the file stands for a file system that takes O_DIRECT at open and refuses it at the read.
Test(read_exactly, takes_o_direct_off_where_it_is_refused) {
    const example made(SIZE_MAX, O_DIRECT);
    std::byte some[100];
    need(files::read_exactly(made.fd.get(), some, sizeof some, 4000, made.path));
    cr_assert_arr_eq(some, made.bytes.data() + 4000, sizeof some);
    cr_assert_eq(::fcntl(made.fd.get(), F_GETFL) & O_DIRECT, 0);
}

Test(read_exactly, what_is_refused_for_another_reason_is_an_error) {
    const example made(SIZE_MAX, O_DIRECT);
    std::byte some[16];
    const auto negative = files::read_exactly(made.fd.get(), some, sizeof some, UINT64_MAX - 99, made.path);
    cr_assert(!negative && negative.error().os_errno == EINVAL);
    const unique_fd writing(::open(made.path.c_str(), O_WRONLY | O_CLOEXEC));
    const auto closed = files::read_exactly(writing.get(), some, sizeof some, 0, made.path);
    cr_assert(!closed && closed.error().os_errno == EBADF);
    refused(files::read_exactly(made.fd.get(), some, sizeof some, made.bytes.size() - 8, made.path), code::damaged,
            "ends at byte");
}
