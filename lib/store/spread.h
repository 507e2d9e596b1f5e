// The writing side of place.h: roots on mounts are made, and what is superfluous there is deleted.
//
// A root is a run's only as long as its `owner` says so: the inode number and the path that it names must both be those
// of the run's directory.  A copy of a run's directory has the original's id and links, but makes a root of its own,
// and deletes nothing in the original's.  Blocking I/O, no state; any thread.
#pragma once

#include "store/place.h"

namespace varde::store {

// A run's directory, open, and its path.
struct run_home {
    int fd = -1;
    std::string path;
};

// Whether packs of this run lie, or have lain, on mounts.
result<bool> has_places(const run_home& run);

// The run's root below a mount, made where missing, and durable.  Only below a mount point: an unmounted one is a
// directory of some other file system.  Its id is in `ret_id`.  io, no_space, invalid (somebody else's directory).
result<unique_fd> make_root(const run_home& run, const std::string& mount, std::string* ret_id);

enum class removal : uint8_t { done, of_another };  // of_another: the root is not this run's, nothing was deleted

// Deletes packs of one generation in one root, finished or not, and their directory where it is empty then; durable.
// All places have the same root and generation.  io: the mount is not there.
result<removal> remove_there(const run_home& run, const std::vector<place>& packs);

// Generations in the run's roots that are older than `oldest` and have no directory in the run: deleted or renamed by
// hand.  Their packs may be wanted under another name, so they are only told of: a sentence each, for a few of them.
// Empty directories are removed.
std::vector<std::string> find_strays(const run_home& run, const std::vector<std::string>& mounts, generation_id oldest);

}  // namespace varde::store
