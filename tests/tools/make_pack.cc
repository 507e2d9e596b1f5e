// make_pack FILE [TENSORS]: writes an example pack (tests/tools/pack_bytes.h), or one with TENSORS small tensors.
//
// Made for the test against an independent reader, and once for tests/golden.  Ranks 3, 4 (which has nothing) and
// 70000.
#include "tests/tools/pack_bytes.h"

#include <cstdio>
#include <cstdlib>

using namespace varde;

namespace {

std::vector<pack::shard> many_shards(unsigned long count) {
    std::vector<pack::shard> shards(count);
    for (unsigned long index = 0; index < count; index++) {
        shards[index].name = "tensor." + std::to_string(index);
        shards[index].type = pack::dtype::f32;
        shards[index].shape = {1 + index % 3};
    }
    return shards;
}

result<pack::image> make_image(unsigned long tensors) {
    std::vector<pack::range> ranges;
    for (const uint32_t rank : {3U, 4U, 70000U}) {
        std::vector<pack::shard> shards;
        if (rank == 3) shards = tensors == 0 ? test::example_shards(3) : many_shards(tensors);
        if (rank == 70000 && tensors == 0) shards = test::example_shards(20);
        auto made = pack::arrange(rank, std::move(shards));
        if (!made) return std::move(made).error();
        ranges.push_back(std::move(*made));
    }
    const pack::identity who{.run = "example",
                             .step = 1200,
                             .incarnation = 3,
                             .node_index = 1,
                             .node_count = 4,
                             .world = 70001,
                             .library = "0.1.0"};
    return pack::compose(who, std::move(ranges), 4096);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2 && argc != 3) {
        std::fprintf(stderr, "usage: make_pack FILE [TENSORS]\n");
        return 2;
    }
    const auto made = make_image(argc == 3 ? std::strtoul(argv[2], nullptr, 10) : 0);
    if (!made) {
        std::fprintf(stderr, "make_pack: %s\n", made.error().context.c_str());
        return 1;
    }
    const auto bytes = test::pack_bytes(*made);
    std::FILE* file = std::fopen(argv[1], "wbe");
    const bool written = file != nullptr && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
    if (file == nullptr || std::fclose(file) != 0 || !written) {
        std::perror(argv[1]);
        return 1;
    }
    return 0;
}
