// A run's directory: generations, their packs and manifests, choice, retention, history.
//
// Everything is decided by reading what is there; no code follows `latest`.  A directory that cannot be read is an
// error, never "no checkpoint".  Blocking I/O: call from a thread that may wait for storage.  Paths go through openat()
// on the run's directory.
#pragma once

#include "base/handle.h"
#include "base/result.h"
#include "pack/layout.h"
#include "store/history.h"
#include "store/roster.h"

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace varde::store {

struct generation_id {
    uint64_t step = 0;
    uint64_t incarnation = 0;
    bool operator==(const generation_id&) const = default;
    // Newest = greatest, the incarnation first: what a later start has written is newer than any step of an earlier
    // one, which may have been abandoned (a restart from an older step), or come from a node that was cut off and went
    // on.
    std::strong_ordering operator<=>(const generation_id& other) const noexcept {
        if (const auto order = incarnation <=> other.incarnation; order != 0) return order;
        return step <=> other.step;
    }
};
std::string generation_name(generation_id id);  // "step-000000001200.r3"
result<generation_id> parse_generation_name(std::string_view name);
std::string pack_name(uint32_t node_index, uint32_t node_count);  // "node-00003-of-00192.safetensors"

enum class generation_status : uint8_t {
    complete,    // all packs are under their final names
    incomplete,  // some are missing, and nobody has written for a while
    damaged,     // marked so, or what is there contradicts itself
    writing,     // some are missing, and something changed in the last two minutes
};

struct generation {
    generation_id id;
    generation_status status = generation_status::incomplete;
    bool committed = false;         // a valid manifest is there
    uint32_t node_count = 0;        // 0: no pack yet
    uint32_t packs_sealed = 0;      // files under their final name
    std::vector<uint32_t> missing;  // node indexes without a sealed pack, at most 16 of them
    uint64_t size_bytes = 0;        // of the sealed packs
    uint64_t wall_ns = 0;           // newest modification time of what is in it
    std::string reason;             // of damage; or why its manifest is no help
};

// manifest.json: the commit record.
struct manifest_pack {
    uint32_t node_index = 0;
    uint64_t size_bytes = 0;
    uint64_t seal_checksum = 0;
    std::string host;
};
struct manifest {
    std::string run;
    generation_id id;
    uint32_t world = 0;
    std::vector<manifest_pack> packs;  // node_count of them, in order
    uint64_t wall_ns = 0;
    std::string library;
};

// A pack being written.  Abandoning it (destructor) removes the .partial file.
//
// On a mount (agent.mounts) the file is there, and "PACK.partial" in the run's directory is a link to its final name:
// made before the file, and named "PACK" when the file has its final name and all of that is durable.
struct run_home;
class pack_file {
public:
    int fd() const noexcept { return fd_.get(); }
    const std::string& path() const noexcept { return path_; }
    bool direct() const noexcept { return direct_; }
    // Takes O_DIRECT off, for file systems that take it at open and answer EINVAL to a transfer.
    result<void> use_buffered();
    // Why it does not lie where it should (spread_over).
    const std::optional<failure>& detour() const noexcept { return detour_; }
    // fsync, rename to the final name, fsync of the directory.  A failure is final: the pack stays unsealed.
    // fenced: another process of this node has begun the same pack anew.
    result<void> seal();
    ~pack_file();
    pack_file(pack_file&&) noexcept;
    pack_file& operator=(pack_file&&) noexcept;

private:
    friend class run_directory;
    pack_file() = default;
    std::string partial_name() const;
    bool has_our_file(const std::string& name) const noexcept;
    bool has_our_link(const std::string& name) const noexcept;
    result<void> create();
    result<void> create_on(const run_home& run, const std::string& mount, generation_id id);
    void abandon() noexcept;
    void remove_link() noexcept;
    result<void> failed(failure why) noexcept;
    result<void> name_link();

    struct linked {
        unique_fd home;  // the generation's directory in the run
        unique_fd root;  // of the run on the mount
        std::string target;
        std::string generation;
    };
    std::optional<linked> link_;  // of a pack on a mount
    std::optional<failure> detour_;
    unique_fd directory_;  // where the file is
    unique_fd fd_;
    std::string name_;  // final
    std::string path_;  // for messages
    uint64_t size_bytes_ = 0;
    bool direct_ = false;
};

class run_directory {
public:
    // Opens "<directory>/<name>"; `create` makes what is missing (mode 0700 for the run).
    static result<run_directory> open(const std::string& directory, const std::string& name, bool create);

    const std::string& path() const noexcept { return path_; }

    // From now on packs go to these mounts, in turn by node index.  Before the first create_pack().
    void spread_over(std::vector<std::string> mounts) { mounts_ = std::move(mounts); }
    result<roster> open_roster(bool create);

    // All generations, newest first, each judged by names, sizes and manifest (not by reading packs).
    result<std::vector<generation>> list() const;

    // The newest generation that is complete and older than `before` (nullptr: no bound).
    // not_found: nothing was ever complete here (no generations, or only such that were never finished): the run may
    // begin at step 0.  damaged: something was, but nothing older than `before` is now; beginning at step 0 would throw
    // work away without a word.
    result<generation> choose(const generation_id* before) const;
    // The newest complete generation of exactly that step.
    result<generation> choose_step(uint64_t step) const;

    // Creates the generation's directory where missing and this node's .partial, O_DIRECT where the file system takes
    // it, with `size_bytes` reserved.  no_space names path, needed and free.  busy: this pack is sealed already.
    // On mounts each `attempt` begins with the next place; one that cannot be used is gone around, last to the run's
    // directory.
    result<pack_file> create_pack(generation_id id, uint32_t node_index, uint32_t node_count, uint64_t size_bytes,
                                  uint32_t attempt = 0);
    // For reading; O_DIRECT where possible.
    result<unique_fd> open_pack(generation_id id, uint32_t node_index, uint32_t node_count,
                                uint64_t* ret_size_bytes) const;

    // Where the pack lies: its path in the run's directory, or where its link leads, checked as open_pack() does it.
    result<std::string> find_pack(generation_id id, uint32_t node_index, uint32_t node_count) const;

    // Makes the names in the generation's directory durable.
    result<void> sync_generation(generation_id id) const;

    // Looks at each of the record's packs from here, where any may lie on a mount: what this node cannot see, others
    // may not be able to read either.
    result<void> confirm(const manifest& record) const;
    // Temporary name, fsync, rename, fsync of the directories; then `latest`.  Done already by another leader with the
    // same packs: success; with other packs: mismatch.
    result<void> commit(const manifest& record);
    result<manifest> read_manifest(generation_id id) const;
    // damaged.json beside the packs, kept for people.
    result<void> mark_damaged(generation_id id, const std::string& reason);

    // Deletes complete generations beyond the newest `keep` (at least 1), and incomplete ones older than the oldest
    // kept; never one that is damaged or newer than `newest`.  Called by the leader only, after a commit.  Returns how
    // many, and in `ret_removed` which.  One that cannot be read or deleted stays, does not keep the others from going,
    // and is the failure.  What stays on mounts because it may be another run's, or may still be wanted, is told of in
    // `ret_left`.
    result<uint32_t> retire(uint32_t keep, generation_id newest, std::vector<std::string>* ret_left = nullptr,
                            std::vector<generation_id>* ret_removed = nullptr);

    // Appends one line of JSON (encode_event()) to history.jsonl with one write, and syncs it.
    result<void> append_history(const std::string& line);
    // not_found: there is none yet.
    result<history> read_history() const;

private:
    result<bool> may_have_links() const;

    unique_fd fd_;
    std::string path_;
    std::vector<std::string> mounts_;
};

}  // namespace varde::store
