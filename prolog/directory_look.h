// A look at the checkpoint directory with the user's eyes: may the agent do there what it will?  It waits for the file
// system as long as that takes, so it is for a child that may be left behind (user_errand.h).
#pragma once

#include "prolog/checkpoint_place.h"

#include <cstdint>
#include <string>

namespace varde::node {

struct directory_view {
    std::string real_path;  // with all links followed: of the directory, or of what of its path is there; may be empty
    bool sized = false;     // the file system says how large it is
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    std::string problem;  // "user 7 may not write to it: Permission denied; give another --ckpt-dir"; empty: none
};

// The agent makes what is missing of the path (store/run_directory.cc), so that alone is no problem.
directory_view look_at(const checkpoint_place& place);

std::string encode_view(const directory_view& view);
// damaged: not what encode_view() makes.
result<directory_view> decode_view(std::string_view bytes);

}  // namespace varde::node
