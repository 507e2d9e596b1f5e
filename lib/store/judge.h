// What one generation is worth: judged by the names in its directory, its manifest and, where asked for, the sizes of
// its packs.  Reads no pack.  Blocking I/O, no state; any thread.
#pragma once

#include "store/store.h"

#include <optional>
#include <sys/types.h>

namespace varde::store {

struct judged {
    generation what;
    unique_fd directory;
    uid_t owner = 0;
    std::vector<bool> sealed;  // by node index
    std::optional<manifest> record;
};

// The pure half: what the names in its directory say of it, and of.record, once that is read.
struct other_files {
    bool has_manifest = false;
    bool has_damage = false;
};
other_files judge_names(const std::vector<std::string>& names, judged& of);
void judge_record(judged& of);

// One read of the directory and one of the manifest: no step per pack, so that fifty generations of 2,048 packs are
// judged in a moment.  not_found: it is gone, or a file or a link has its name.  Other errors: it could not be read,
// which says nothing about its worth.
result<judged> judge(int run, const std::string& run_path, generation_id id);

// Looks at each sealed pack: sums their sizes and finds those that are empty or not as long as the manifest says
// (status damaged), in their places on mounts, too.  io: one of those mounts is not there, which says nothing of them.
result<void> measure(judged& of);

// All generations' names in the run's directory, newest first.
result<std::vector<generation_id>> read_generations(int run, const std::string& run_path);

}  // namespace varde::store
