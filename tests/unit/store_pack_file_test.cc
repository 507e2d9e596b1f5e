// Packs on their way: reserved, sealed, abandoned, and what a full disk or a second writer does to them.
#include "store_support.h"

using namespace store_test;

namespace {

constexpr generation_id id{100, 1};

std::string final_path(const run_directory& run) { return generation_path(run, id) + "/" + pack_name(0, 2); }
std::string partial_path(const run_directory& run) { return final_path(run) + ".partial"; }

}  // namespace

Test(pack_file, is_sealed_under_its_final_name) {
    temporary_directory at;
    run_directory run = open_run(at);
    pack_file pack = need(run.create_pack(id, 0, 2, 8192));
    struct stat info {};
    cr_assert_eq(::stat(partial_path(run).c_str(), &info), 0);
    cr_assert_eq(info.st_mode & 07777, 0600u);
    need(pack.seal());
    cr_assert(exists(final_path(run)) && !exists(partial_path(run)));
    uint64_t size_bytes = 0;
    need(run.open_pack(id, 0, 2, &size_bytes));
    cr_assert_eq(size_bytes, 8192);
    refused(pack.seal(), code::internal);
}

Test(pack_file, abandoned_one_leaves_nothing) {
    temporary_directory at;
    run_directory run = open_run(at);
    { const pack_file pack = need(run.create_pack(id, 0, 2, 8192)); }
    cr_assert(!exists(partial_path(run)) && !exists(final_path(run)));
}

Test(pack_file, moved_one_is_abandoned_once) {
    temporary_directory at;
    run_directory run = open_run(at);
    pack_file first = need(run.create_pack(id, 0, 2, 4096));
    pack_file second = std::move(first);
    first = need(run.create_pack(id, 1, 2, 4096));
    second = std::move(first);
    cr_assert(!exists(partial_path(run)));
    need(second.seal());
    cr_assert(exists(generation_path(run, id) + "/" + pack_name(1, 2)));
}

Test(pack_file, leftover_of_a_dead_agent_is_replaced) {
    temporary_directory at;
    run_directory run = open_run(at);
    std::filesystem::create_directory(generation_path(run, id));
    write_file(partial_path(run), "half a pack");
    pack_file pack = need(run.create_pack(id, 0, 2, 4096));
    need(pack.seal());
    cr_assert_eq(std::filesystem::file_size(final_path(run)), 4096);
}

Test(pack_file, writer_that_was_replaced_can_neither_seal_nor_remove) {
    temporary_directory at;
    run_directory run = open_run(at);
    pack_file old = need(run.create_pack(id, 0, 2, 4096));
    pack_file young = need(run.create_pack(id, 0, 2, 4096));
    refused(old.seal(), code::fenced);
    cr_assert(exists(partial_path(run)), "the successor's file is still there");
    need(young.seal());
}

Test(pack_file, sealed_one_is_not_written_again) {
    temporary_directory at;
    run_directory run = open_run(at);
    need(need(run.create_pack(id, 0, 2, 4096)).seal());
    refused(run.create_pack(id, 0, 2, 4096), code::busy, "sealed already");
}

Test(pack_file, final_name_is_never_replaced) {
    temporary_directory at;
    run_directory run = open_run(at);
    pack_file pack = need(run.create_pack(id, 0, 2, 4096));
    write_file(final_path(run), "precious");
    const result<void> sealed = pack.seal();
    cr_assert(!sealed.has_value());
    cr_assert_eq(sealed.error().os_errno, EEXIST);
    cr_assert(read_file(final_path(run)) == "precious");
    refused(pack.seal(), code::internal);
}

Test(pack_file, wrong_length_is_not_sealed) {
    temporary_directory at;
    run_directory run = open_run(at);
    pack_file pack = need(run.create_pack(id, 0, 2, 8192));
    cr_assert_eq(::ftruncate(pack.fd(), 4096), 0);
    refused(pack.seal(), code::io, "4096 bytes");
    cr_assert(!exists(final_path(run)) && !exists(partial_path(run)));
}

Test(pack_file, numbers_that_make_no_sense_are_refused) {
    temporary_directory at;
    run_directory run = open_run(at);
    refused(run.create_pack(id, 2, 2, 4096), code::invalid);
    refused(run.create_pack(id, 0, 70'000, 4096), code::invalid);
    refused(run.create_pack(id, 0, 2, 0), code::invalid);
    refused(run.create_pack(id, 0, 2, UINT64_MAX), code::invalid);
    cr_assert(!exists(generation_path(run, id)));
}

Test(pack_file, full_file_system_is_named_and_nothing_is_left) {
    temporary_directory at;
    const int status = in_child([&]() {
        if (!mount_own("tmpfs", at.path(), "size=1m")) return 77;
        run_directory run = open_run(at);
        const result<pack_file> pack = run.create_pack(id, 0, 2, 8ULL << 20);
        if (pack || pack.error().what != code::no_space) return 1;
        for (const char* words : {"node-00000-of-00002", "8 MiB needed", "free", "--ckpt-keep"}) {
            if (pack.error().context.find(words) == std::string::npos) {
                ::dprintf(2, "no '%s' in: %s\n", words, pack.error().context.c_str());
                return 2;
            }
        }
        if (exists(partial_path(run))) return 3;
        return run.create_pack(id, 0, 2, 4096).has_value() ? 0 : 4;
    });
    if (status == 77) cr_skip_test("no mount namespace of our own here");
    cr_assert_eq(status, 0, "%d", status);
}

Test(pack_file, file_system_without_o_direct_and_reservation_works) {
    temporary_directory at;
    const int status = in_child([&]() {
        if (!mount_own("ramfs", at.path(), nullptr)) return 77;
        run_directory run = open_run(at);
        result<pack_file> pack = run.create_pack(id, 0, 1, 4096);
        // ramfs has no limit and says that 0 bytes are free: the guess must not refuse what the file system would take.
        if (!pack) {
            ::dprintf(2, "%s\n", pack.error().context.c_str());
            return 1;
        }
        if (pack->direct()) return 2;
        if (!pack->use_buffered()) return 3;
        const std::string bytes(4096, 'b');
        if (::pwrite(pack->fd(), bytes.data(), bytes.size(), 0) != 4096) return 4;
        if (!pack->seal()) return 5;
        if (!run.commit(manifest_of(id, 1))) return 6;
        const result<generation> chosen = run.choose(nullptr);
        return chosen && chosen->committed ? 0 : 7;
    });
    if (status == 77) cr_skip_test("no mount namespace of our own here");
    cr_assert_eq(status, 0, "%d", status);
}

Test(pack_file, direct_one_can_leave_o_direct) {
    temporary_directory at;
    run_directory run = open_run(at);
    pack_file pack = need(run.create_pack(id, 0, 1, 4096));
    need(pack.use_buffered());
    cr_assert(!pack.direct());
    cr_assert_eq(::pwrite(pack.fd(), "odd", 3, 7), 3, "an unaligned write passes only without O_DIRECT");
    cr_assert_eq(::ftruncate(pack.fd(), 4096), 0);
    need(pack.seal());
}

Test(commit, second_leader_with_the_same_packs_succeeds) {
    temporary_directory at;
    run_directory run = open_run(at);
    write_generation(run, id, 2);
    manifest again = manifest_of(id, 2);
    again.wall_ns = 2;
    need(run.commit(again));
    cr_assert_eq(need(run.read_manifest(id)).wall_ns, 1, "the first stays");
    again.packs[1].seal_checksum++;
    refused(run.commit(again), code::mismatch, "another leader");
    for (const auto& entry : std::filesystem::directory_iterator(generation_path(run, id)))
        cr_assert(!entry.path().filename().string().starts_with(".new-"), "%s", entry.path().c_str());
}

Test(commit, latest_is_moved_and_its_failure_is_none) {
    temporary_directory at;
    run_directory run = open_run(at);
    write_generation(run, {100, 1}, 1);
    write_generation(run, {200, 1}, 1);
    cr_assert(std::filesystem::read_symlink(run.path() + "/latest") == "step-000000000200.r1");
    std::filesystem::remove(run.path() + "/latest");
    std::filesystem::create_directories(run.path() + "/latest/mine");
    write_generation(run, {300, 1}, 1);
    cr_assert(exists(run.path() + "/latest/mine"));
    for (const auto& entry : std::filesystem::directory_iterator(run.path()))
        cr_assert(!entry.path().filename().string().starts_with(".new-"));
}

Test(commit, generation_that_is_not_there_is_not_found) {
    temporary_directory at;
    run_directory run = open_run(at);
    refused(run.commit(manifest_of(id, 1)), code::not_found);
    refused(run.read_manifest(id), code::not_found);
    refused(run.mark_damaged(id, "x"), code::not_found);
    uint64_t size_bytes = 0;
    refused(run.open_pack(id, 0, 1, &size_bytes), code::not_found);
}
