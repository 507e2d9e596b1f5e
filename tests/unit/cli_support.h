// What the tests of `varde` share: runs with real packs, and the program run whole, its output caught.
#pragma once

#include "cli/program.h"
#include "store_support.h"
#include "tests/tools/pack_bytes.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace cli_test {

using namespace varde;
using store_test::need;

struct outcome {
    int status = -1;
    std::string out;
    std::string err;
};

// Runs `varde ARGUMENTS`.
inline outcome varde_run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "varde");
    std::vector<const char*> argv;
    for (const std::string& each : arguments) argv.push_back(each.c_str());
    char* text[2] = {nullptr, nullptr};
    size_t size[2] = {0, 0};
    std::FILE* streams[2] = {::open_memstream(&text[0], &size[0]), ::open_memstream(&text[1], &size[1])};
    outcome got;
    got.status = cli::run(static_cast<int>(argv.size()), argv.data(), {streams[0], streams[1]});
    for (std::FILE* each : streams) std::fclose(each);
    got.out.assign(text[0], size[0]);
    got.err.assign(text[1], size[1]);
    for (char* each : text) std::free(each);
    return got;
}

inline void expect_contains(const std::string& text, const std::string& words) {
    cr_expect(text.find(words) != std::string::npos, "'%s' is not in:\n%s", words.c_str(), text.c_str());
}

// Two ranks per node: two tensors of their own that fill a chunk each, and a piece of a split one.
inline pack::image node_image(const std::string& run, store::generation_id id, uint32_t node, uint32_t nodes) {
    std::vector<pack::range> ranges;
    for (uint32_t rank = 2 * node; rank < 2 * node + 2; rank++) {
        ranges.push_back(need(pack::arrange(
            rank, {{.name = "weight", .type = pack::dtype::f32, .shape = {1024}, .global_shape = {}, .offset = {}},
                   {.name = "bias", .type = pack::dtype::f32, .shape = {1024}, .global_shape = {}, .offset = {}},
                   {.name = "embedding",
                    .type = pack::dtype::bf16,
                    .shape = {2, 3},
                    .global_shape = {4 * nodes, 3},
                    .offset = {2 * uint64_t{rank}, 0}}})));
    }
    return need(pack::compose({.run = run,
                               .step = id.step,
                               .incarnation = id.incarnation,
                               .node_index = node,
                               .node_count = nodes,
                               .world = 2 * nodes,
                               .library = "0.1.0"},
                              std::move(ranges), 4096));
}

// Writes the packs of the nodes below `written`, and commits where that is all of them.
inline void make_generation(const std::string& directory, const std::string& name, store::generation_id id,
                            uint32_t nodes, uint32_t written, const std::vector<std::string>& mounts = {}) {
    auto run = need(store::run_directory::open(directory, name, true));
    run.spread_over(mounts);
    store::manifest record{.run = name, .id = id, .world = 2 * nodes, .packs = {}, .wall_ns = 1, .library = "0.1.0"};
    for (uint32_t node = 0; node < written; node++) {
        const pack::image image = node_image(name, id, node, nodes);
        const auto bytes = test::pack_bytes(image);
        auto file = need(run.create_pack(id, node, nodes, bytes.size()));
        need(file.use_buffered());
        cr_assert(::pwrite(file.fd(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
        need(file.seal());
        record.packs.push_back({node, bytes.size(),
                                pack::checksum(std::span(bytes).subspan(image.seal_offset, image.seal_bytes)), "host"});
    }
    if (written == nodes) need(run.commit(record));
}

inline std::string pack_path(const std::string& directory, const std::string& name, store::generation_id id,
                             uint32_t node, uint32_t nodes) {
    return directory + "/" + name + "/" + store::generation_name(id) + "/" + store::pack_name(node, nodes);
}

inline void flip_byte(const std::string& path, uint64_t offset) {
    const unique_fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    unsigned char byte = 0;
    cr_assert(::pread(fd.get(), &byte, 1, static_cast<off_t>(offset)) == 1);
    byte ^= 1;
    cr_assert(::pwrite(fd.get(), &byte, 1, static_cast<off_t>(offset)) == 1);
}

}  // namespace cli_test
