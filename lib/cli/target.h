// What a path on the command line is: a pack, a generation, a run or a directory of runs.  Decided by reading.
// Blocking I/O.
#pragma once

#include "base/result.h"
#include "store/store.h"

#include <string>
#include <vector>

namespace varde::cli {

enum class target_kind : uint8_t { pack, generation, run, runs };

struct target {
    target_kind kind = target_kind::pack;
    std::string path;               // absolute, without links
    store::generation_id id{};      // of a generation
    std::vector<std::string> runs;  // paths of the runs; one for a run, and the one that a generation lies in
};

// not_found where there is nothing, or nothing of Varde.
result<target> find_target(const std::string& path);

// The run at an absolute path.
result<store::run_directory> open_run(const std::string& path);

// Parts of an absolute path.
std::string parent_of(const std::string& path);
std::string name_of(const std::string& path);

}  // namespace varde::cli
