// `varde` run whole on runs that are good, damaged and incomplete.
#include "cli_support.h"

#include <pty.h>

using namespace cli_test;
using store::generation_id;
using store_test::temporary_directory;

namespace {

constexpr generation_id first{100, 1};
constexpr generation_id second{200, 1};

nlohmann::json json_of(const outcome& got) {
    auto value = nlohmann::json::parse(got.out, nullptr, false);
    cr_assert(not value.is_discarded(), "no JSON: %s", got.out.c_str());
    return value;
}

// Where rank 1's tensor `bias` begins in node 0's pack: chunk 1 of its range.
uint64_t offset_of_bias() {
    const pack::image image = node_image("gpt", second, 0, 2);
    cr_assert(image.ranges[1].what.shards[1].name == "bias");
    return image.ranges[1].file_offset + image.ranges[1].what.shards[1].offset_bytes;
}

struct example {
    example() {
        make_generation(directory.path(), "gpt", first, 2, 2);
        make_generation(directory.path(), "gpt", second, 2, 2);
        run = directory.path() + "/gpt";
    }
    std::string generation(generation_id id) const { return run + "/" + store::generation_name(id); }
    temporary_directory directory;
    std::string run;
};

}  // namespace

Test(cli_program, ls_lists_a_run_newest_first) {
    const example made;
    const outcome got = varde_run({"ls", made.run});
    cr_expect(got.status == 0 and got.err.empty(), "%s", got.err.c_str());
    expect_contains(got.out, made.run + "\n  STEP  INCARNATION  PACKS");
    const size_t newer = got.out.find(" 200 ");
    const size_t older = got.out.find(" 100 ");
    cr_expect(newer != std::string::npos and older != std::string::npos and newer < older, "%s", got.out.c_str());
    expect_contains(got.out, "2/2");
    expect_contains(got.out, "complete\n");
}

Test(cli_program, ls_lists_all_runs_of_a_directory) {
    const example made;
    make_generation(made.directory.path(), "bert", generation_id{7, 2}, 4, 1);
    std::filesystem::create_directory(made.directory.path() + "/empty");
    const auto got = json_of(varde_run({"ls", made.directory.path(), "--json"}));
    cr_assert(got["runs"].size() == 2);
    cr_expect(got["runs"][0]["run"] == "bert" and got["runs"][1]["run"] == "gpt");
    const auto& one = got["runs"][0]["generations"][0];
    cr_expect(one["step"] == 7 and one["incarnation"] == 2 and one["status"] == "writing" and one["node_count"] == 4 and
              one["packs_sealed"] == 1);
    cr_expect(one["missing_nodes"] == nlohmann::json({1, 2, 3}) and one["committed"] == false);
    expect_contains(varde_run({"ls", made.directory.path()}).out, "writing, nodes 1, 2, 3 missing");
}

Test(cli_program, ls_follows_a_link_to_a_run_and_takes_the_current_directory) {
    const example made;
    cr_assert(::symlink(made.run.c_str(), (made.directory.path() + "/link").c_str()) == 0);
    cr_expect(varde_run({"ls", made.directory.path() + "/link"}).status == 0);
    cr_assert(::chdir(made.run.c_str()) == 0);
    expect_contains(varde_run({"ls"}).out, made.run);
}

Test(cli_program, verify_finds_everything_good) {
    const example made;
    for (const std::string& path : {made.directory.path(), made.run, made.generation(second),
                                    pack_path(made.directory.path(), "gpt", second, 1, 2)}) {
        const outcome got = varde_run({"verify", path});
        cr_expect(got.status == 0 and got.err.empty(), "%s%s", got.out.c_str(), got.err.c_str());
        expect_contains(got.out, "all good\n");
    }
    const auto json = json_of(varde_run({"verify", made.run, "--json"}));
    cr_expect(json["verdict"] == "good" and json["packs"].size() == 4 and json["generations"].size() == 2);
    expect_contains(varde_run({"verify", made.run + "/latest"}).out, "2 packs, ");
}

Test(cli_program, verify_names_pack_rank_and_tensor_of_one_flipped_byte) {
    const example made;
    const std::string path = pack_path(made.directory.path(), "gpt", second, 0, 2);
    flip_byte(path, offset_of_bias() + 17);
    const outcome got = varde_run({"verify", made.run});
    cr_expect(got.status == 1, "%s", got.out.c_str());
    expect_contains(got.out, "damaged     " + path);
    expect_contains(got.out, "chunk 1 of rank 1 is damaged");
    expect_contains(got.out, "in it: tensor 'bias'\n");
    expect_contains(got.out, "damage found");
    const auto json = json_of(varde_run({"verify", path, "--json"}));
    cr_expect(json["verdict"] == "damaged" and json["packs"][0]["good"] == false);
    const auto& finding = json["packs"][0]["findings"][0];
    cr_expect(finding["rank"] == 1 and finding["chunk"] == 1 and finding["tensors"] == nlohmann::json({"bias"}) and
              finding["kind"] == "damaged");
    // The other generation is not touched by it.
    cr_expect(varde_run({"verify", made.generation(first)}).status == 0);
}

Test(cli_program, verify_finds_every_damaged_chunk_in_order) {
    const example made;
    const std::string path = pack_path(made.directory.path(), "gpt", second, 0, 2);
    const pack::image image = node_image("gpt", second, 0, 2);
    for (uint64_t offset = image.ranges[0].file_offset; offset < image.seal_offset; offset += 4096)
        flip_byte(path, offset);
    const auto json = json_of(varde_run({"verify", path, "--json"}));
    const auto& findings = json["packs"][0]["findings"];
    cr_assert(findings.size() == image.chunk_count);
    for (size_t index = 0; index < findings.size(); index++)
        cr_expect(findings[index]["rank"] == index / 3 and findings[index]["chunk"] == index % 3);
}

Test(cli_program, verify_finds_damage_of_header_and_seal) {
    const example made;
    const std::string path = pack_path(made.directory.path(), "gpt", second, 1, 2);
    const pack::image image = node_image("gpt", second, 1, 2);
    for (const uint64_t offset : {uint64_t{0}, uint64_t{20}, image.header.size() - 1, image.seal_offset,
                                  image.seal_offset + 40, image.file_bytes - 1}) {
        flip_byte(path, offset);
        const outcome got = varde_run({"verify", path});
        cr_expect(got.status == 1, "%lu: %s", offset, got.out.c_str());
        expect_contains(got.out, path);
        flip_byte(path, offset);
    }
    cr_expect(varde_run({"verify", path}).status == 0);
    cr_assert(::truncate(path.c_str(), static_cast<off_t>(image.seal_offset)) == 0);
    cr_expect(varde_run({"verify", made.generation(second)}).status == 1);
}

Test(cli_program, verify_notices_a_pack_in_a_wrong_place) {
    const example made;
    const std::string path = pack_path(made.directory.path(), "gpt", second, 0, 2);
    std::filesystem::copy_file(pack_path(made.directory.path(), "gpt", first, 0, 2), path,
                               std::filesystem::copy_options::overwrite_existing);
    const outcome got = varde_run({"verify", made.generation(second)});
    cr_expect(got.status == 1);
    expect_contains(got.out, "it is a pack of step 100, incarnation 1, in the place of another");
    expect_contains(got.out, "it is not the pack that was committed");
    std::filesystem::copy_file(pack_path(made.directory.path(), "gpt", second, 1, 2), path,
                               std::filesystem::copy_options::overwrite_existing);
    expect_contains(varde_run({"verify", path}).out, "it is the pack of node 1 of 2, under another's name");
    make_generation(made.directory.path(), "other", second, 2, 2);
    std::filesystem::copy_file(pack_path(made.directory.path(), "other", second, 0, 2), path,
                               std::filesystem::copy_options::overwrite_existing);
    expect_contains(varde_run({"verify", path}).out, "it is a pack of the run 'other', not of 'gpt'");
    // Elsewhere a pack is only itself.
    const std::string elsewhere = made.directory.path() + "/copy.safetensors";
    std::filesystem::copy_file(path, elsewhere);
    cr_expect(varde_run({"verify", elsewhere}).status == 0);
}

Test(cli_program, verify_takes_an_unfinished_generation_for_no_damage_of_the_run) {
    const example made;
    make_generation(made.directory.path(), "gpt", generation_id{300, 2}, 4, 1);
    const outcome run = varde_run({"verify", made.run});
    cr_expect(run.status == 0, "%s", run.out.c_str());
    expect_contains(run.out, "incomplete  " + made.run);
    expect_contains(run.out, "nodes 1, 2, 3 missing");
    cr_expect(varde_run({"verify", made.generation(generation_id{300, 2})}).status == 1);
    // A committed one whose pack is gone is damage.
    std::filesystem::remove(pack_path(made.directory.path(), "gpt", second, 1, 2));
    const outcome lost = varde_run({"verify", made.run});
    cr_expect(lost.status == 1);
    expect_contains(lost.out, "damaged     " + made.generation(second) +
                                  "  damaged: it was committed, and 1 of its packs are gone");
}

Test(cli_program, show_lists_tensors_of_a_pack) {
    const example made;
    const outcome got = varde_run({"show", pack_path(made.directory.path(), "gpt", second, 1, 2)});
    cr_expect(got.status == 0 and got.err.empty(), "%s", got.err.c_str());
    expect_contains(got.out, "run gpt, step 200, incarnation 1, node 1 of 2, 2 of 4 ranks");
    expect_contains(got.out, "RANK  NAME       TYPE  SHAPE   PLACE");
    expect_contains(got.out, "   3  embedding  BF16  [2, 3]  [6:8, 0:3] of [8, 3]");
    expect_contains(got.out, "   2  weight     F32   [1024]  whole");
}

Test(cli_program, show_lists_a_generation_and_chooses) {
    const example made;
    const auto all = json_of(varde_run({"show", made.generation(second), "--json"}));
    cr_assert(all["packs"].size() == 2);
    cr_expect(all["packs"][1]["tensors"].size() == 6 and all["packs"][0]["ranks"] == nlohmann::json({0, 1}) and
              all["packs"][0]["step"] == 200);
    const auto& piece = all["packs"][1]["tensors"][5];
    cr_expect(piece["name"] == "embedding" and piece["rank"] == 3 and piece["dtype"] == "BF16" and
              piece["shape"] == nlohmann::json({2, 3}));
    cr_expect(piece["global_shape"] == nlohmann::json({8, 3}) and piece["offset"] == nlohmann::json({6, 0}) and
              piece["size_bytes"] == 12);
    const auto some = json_of(varde_run({"show", made.generation(second), "--json", "--rank", "2", "--name", "*i*"}));
    cr_expect(some["packs"][0]["tensors"].empty() and some["packs"][1]["tensors"].size() == 3);
    const pack::image image = node_image("gpt", second, 1, 2);
    cr_expect(some["packs"][1]["tensors"][0]["file_offset"] == image.ranges[0].file_offset);
}

Test(cli_program, show_says_what_it_cannot_show) {
    const example made;
    outcome got = varde_run({"show", made.run});
    cr_expect(got.status == 2 and got.out.empty());
    expect_contains(got.err, "varde: couldn't show '" + made.run + "': it is no pack and no generation");
    flip_byte(pack_path(made.directory.path(), "gpt", second, 0, 2), 30);
    got = varde_run({"show", made.generation(second)});
    cr_expect(got.status == 1);
    expect_contains(got.out, "node 1 of 2");
    expect_contains(got.err, "node-00000-of-00002.safetensors");
}

Test(cli_program, shows_no_control_bytes_of_hostile_names) {
    const temporary_directory directory;
    const auto what = need(pack::arrange(
        0, {{.name = "a\x1b[31m\n", .type = pack::dtype::u8, .shape = {1}, .global_shape = {}, .offset = {}}}));
    const auto bytes = test::pack_bytes(need(pack::compose(
        {.run = "r", .step = 1, .incarnation = 1, .node_index = 0, .node_count = 1, .world = 1, .library = ""}, {what},
        4096)));
    const std::string path = directory.path() + "/x.safetensors";
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    for (const char* verb : {"show", "verify"}) {
        const outcome got = varde_run({verb, path});
        cr_expect(got.status == 0 and got.out.find('\x1b') == std::string::npos, "%s", got.out.c_str());
    }
    expect_contains(varde_run({"show", path}).out, "a\\x1b[31m\\x0a");
    flip_byte(path, bytes.size() - 8192);
    cr_expect(varde_run({"verify", path}).out.find('\x1b') == std::string::npos);
}

Test(cli_program, wrong_paths_are_one_clear_line) {
    const temporary_directory directory;
    std::ofstream(directory.path() + "/foreign.safetensors") << "no pack at all";
    for (const char* verb : {"ls", "verify", "show"}) {
        for (const std::string& path : {directory.path() + "/none", directory.path(), std::string("/dev/null")}) {
            const outcome got = varde_run({verb, path});
            cr_expect(got.status == 2 and got.out.empty(), "%s %s: %d", verb, path.c_str(), got.status);
            cr_expect(got.err.starts_with("varde: couldn't ") and got.err.find('\n') == got.err.size() - 1, "%s",
                      got.err.c_str());
        }
    }
    expect_contains(varde_run({"ls", directory.path() + "/none"}).err, "No such file or directory");
    expect_contains(varde_run({"ls", directory.path()}).err, "neither it nor a directory in it has generations");
    expect_contains(varde_run({"ls", directory.path() + "/foreign.safetensors"}).err, "it is a file, not a run");
    cr_expect(varde_run({"verify", directory.path() + "/foreign.safetensors"}).status == 1);
    cr_expect(varde_run({"show", directory.path() + "/foreign.safetensors"}).status == 1);
}

Test(cli_program, wrong_usage_is_refused_and_help_is_given) {
    const std::vector<std::vector<std::string>> wrong{{},
                                                      {"frobnicate"},
                                                      {"ls", "--frobnicate"},
                                                      {"show"},
                                                      {"show", "x", "--rank", "-1"},
                                                      {"show", "x", "--rank", "a"},
                                                      {"ls", "a", "b"}};
    for (const auto& arguments : wrong) {
        const outcome got = varde_run(arguments);
        cr_expect(got.status == 2 and got.out.empty());
        cr_expect(
            got.err.starts_with("varde: couldn't read the command line: ") and got.err.find('\n') == got.err.size() - 1,
            "%s", got.err.c_str());
    }
    cr_expect(varde_run({"--version"}).out == "varde 0.1.0\n");
    const outcome help = varde_run({"--help"});
    cr_expect(help.status == 0);
    for (const char* verb : {"ls", "verify", "show", "--version", "Exit status"}) expect_contains(help.out, verb);
    const outcome verb = varde_run({"show", "--help"});
    cr_expect(verb.status == 0);
    expect_contains(verb.out, "--name");
}

Test(cli_program, ls_marks_damage_with_its_reason) {
    const example made;
    need(need(store::run_directory::open(made.directory.path(), "gpt", false))
             .mark_damaged(second, "node 1: chunk 3 is damaged"));
    expect_contains(varde_run({"ls", made.run}).out, "damaged: node 1: chunk 3 is damaged");
    cr_expect(varde_run({"ls", made.run}).status == 0);
    cr_expect(json_of(varde_run({"ls", made.run, "--json"}))["runs"][0]["generations"][0]["status"] == "damaged");
    cr_expect(varde_run({"verify", made.run}).status == 1);
}

Test(cli_program, verify_shows_how_far_it_is_on_a_terminal_only) {
    const example made;
    int master = -1;
    int terminal = -1;
    cr_assert(::openpty(&master, &terminal, nullptr, nullptr, nullptr) == 0);
    std::FILE* out = std::tmpfile();
    std::FILE* err = ::fdopen(terminal, "w");
    const char* argv[] = {"varde", "verify", made.run.c_str()};
    cr_expect(cli::run(3, argv, {out, err}) == 0);
    char shown[4096] = "";
    cr_assert(::read(master, shown, sizeof shown - 1) > 0);
    expect_contains(shown, " %, ");
    expect_contains(shown, "\r\x1b[K");
    std::fclose(out);
    std::fclose(err);
    cr_expect(varde_run({"verify", made.run}).err.empty());
}

Test(cli_program, a_full_output_is_an_error) {
    const example made;
    std::FILE* full = std::fopen("/dev/full", "we");
    std::FILE* errors = std::tmpfile();
    const char* argv[] = {"varde", "ls", made.run.c_str()};
    cr_expect(cli::run(3, argv, {full, errors}) == 2);
    std::fclose(full);
    std::fclose(errors);
}
