// Reads one whole pack and says what is wrong with it.  Blocking I/O on a few threads of its own.
#pragma once

#include "cli/pack_input.h"
#include "cli/progress.h"
#include "store/store.h"

#include <optional>
#include <string>
#include <vector>

namespace varde::cli {

// What a pack in a generation's directory must be.
struct expectation {
    std::string run;
    store::generation_id id;
    uint32_t node_index = 0;
    uint32_t node_count = 0;
    // By the manifest, where there is one that can be used.
    std::optional<store::manifest_pack> recorded;
    std::optional<size_t> recorded_count;  // of packs
    std::optional<uint32_t> world;
};

struct pack_job {
    std::string path;
    result<std::string> reached;  // the same, or where its link leads (agent.mounts)
    uint64_t size_bytes = 0;      // for the progress line
    std::optional<expectation> expected;
};

// One thing that is wrong.
struct finding {
    code what = code::damaged;
    std::string text;
    std::optional<uint32_t> rank;  // of a damaged chunk, as the next two
    std::optional<uint64_t> chunk;
    std::vector<std::string> tensors;  // that have bytes in it
};

struct pack_report {
    std::string path;
    uint64_t size_bytes = 0;
    std::vector<finding> findings;  // in file order
};

pack_report check_pack(const pack_job& job, progress& shown);

// Names of the rank's tensors with bytes in a chunk.
std::vector<std::string> tensors_in_chunk(const pack::range& of, uint64_t chunk_bytes, uint64_t chunk_in_range);

}  // namespace varde::cli
