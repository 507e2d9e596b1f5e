// `varde verify` beside a job that goes on, under limits, and with manifests that are no help.
#include "cli_support.h"

#include <grp.h>
#include <sys/resource.h>

using namespace cli_test;
using store::generation_id;
using store_test::temporary_directory;

namespace {

constexpr generation_id first{100, 1};
constexpr generation_id second{200, 1};

struct example {
    example() {
        make_generation(directory.path(), "gpt", first, 2, 2);
        make_generation(directory.path(), "gpt", second, 2, 2);
    }
    std::string pack(generation_id id, uint32_t node) const { return pack_path(directory.path(), "gpt", id, node, 2); }
    std::string generation(generation_id id) const { return run + "/" + store::generation_name(id); }
    temporary_directory directory;
    std::string run = directory.path() + "/gpt";
};

// An output that renames the older generation, as retire() does, when the first line of the newer one is printed.
struct meanwhile {
    std::string text;
    std::string older;
};
ssize_t print_and_retire(void* cookie, const char* text, size_t size) {
    auto& out = *static_cast<meanwhile*>(cookie);
    if (!out.older.empty()) std::filesystem::rename(out.older, out.older + ".retired");
    out.older.clear();
    out.text.append(text, size);
    return static_cast<ssize_t>(size);
}

}  // namespace

Test(cli_verify, a_generation_that_is_retired_meanwhile_is_no_fault) {
    const example made;
    meanwhile seen{"", made.generation(first)};
    std::FILE* out =
        ::fopencookie(&seen, "w", {.read = nullptr, .write = print_and_retire, .seek = nullptr, .close = nullptr});
    std::setvbuf(out, nullptr, _IONBF, 0);
    const char* argv[] = {"varde", "verify", made.run.c_str()};
    const int status = cli::run(3, argv, {out, stderr});
    std::fclose(out);
    cr_expect(status == 0, "%s", seen.text.c_str());
    expect_contains(seen.text, "good        " + made.pack(second, 1));
    expect_contains(seen.text, "retired     " + made.generation(first));
    expect_contains(seen.text, "2 packs, ");
}

Test(cli_verify, a_pack_that_is_gone_from_a_generation_that_stays_is_a_fault) {
    const example made;
    meanwhile seen{"", made.pack(first, 1)};
    std::FILE* out =
        ::fopencookie(&seen, "w", {.read = nullptr, .write = print_and_retire, .seek = nullptr, .close = nullptr});
    std::setvbuf(out, nullptr, _IONBF, 0);
    const char* argv[] = {"varde", "verify", made.run.c_str()};
    cr_expect(cli::run(3, argv, {out, stderr}) == 2);
    std::fclose(out);
    expect_contains(seen.text, "unreadable  " + made.pack(first, 1));
}

Test(cli_verify, a_manifest_that_is_no_use_is_told) {
    const example made;
    const std::string manifest = made.generation(second) + "/manifest.json";
    std::filesystem::resize_file(manifest, 40);
    for (const std::string& path : {made.run, made.generation(second), made.pack(second, 1)}) {
        const outcome got = varde_run({"verify", path});
        cr_expect(got.status == 1, "%s: %s", path.c_str(), got.out.c_str());
        expect_contains(got.out, "damaged     " + manifest);
        expect_contains(got.out, "it is not JSON");
        expect_contains(got.out, "good        " + made.pack(second, 1));
    }
    const auto json = nlohmann::json::parse(varde_run({"verify", made.run, "--json"}).out);
    cr_expect(json["verdict"] == "damaged" and json["damaged_manifests"].size() == 1 and
              json["damaged_manifests"][0]["path"] == manifest);
}

// A pack that is whole and in its place, but not the one that was committed.
Test(cli_verify, a_lone_pack_is_held_against_the_manifest) {
    const example made;
    cr_expect(varde_run({"verify", made.pack(second, 0)}).status == 0);
    std::string manifest = store_test::read_file(made.generation(second) + "/manifest.json");
    const size_t seal = manifest.find("\"seal\": \"") + 9;
    manifest[seal] = manifest[seal] == '0' ? '1' : '0';
    store_test::write_file(made.generation(second) + "/manifest.json", manifest);
    const outcome got = varde_run({"verify", made.pack(second, 0)});
    cr_expect(got.status == 1);
    expect_contains(got.out, "it is not the pack that was committed");
    cr_expect(varde_run({"verify", made.pack(second, 1)}).status == 0);
}

Test(cli_verify, works_with_no_thread_but_its_own, .timeout = 60) {
    const example made;
    // Root has no limit, so not as root; and the directory is root's alone.
    for (const std::string& path : {made.directory.path(), made.run, made.generation(second)})
        std::filesystem::permissions(path, std::filesystem::perms::all);
    for (const uint32_t node : {0U, 1U})
        std::filesystem::permissions(made.pack(second, node), std::filesystem::perms::all);
    const int status = store_test::in_child([&] {
        const rlimit one{1, 1};
        if (::setrlimit(RLIMIT_NPROC, &one) != 0) return 10;
        if (::geteuid() == 0 && (::setgroups(0, nullptr) != 0 || ::setgid(65533) != 0 || ::setuid(65533) != 0))
            return 11;
        return varde_run({"verify", made.pack(second, 0)}).status;
    });
    cr_expect(status == 0, "%d", status);
}
