// Where a pack lies that is not in its run's directory (agent.mounts), and how a reader gets there.
//
//   MOUNT/varde-UID/ID/owner               whose root this is: inode number and path of a run's directory
//   MOUNT/varde-UID/ID/GENERATION/PACK
//
// ID is 128 random bits, made once per run and kept in the run's directory ("place"), so that two runs never meet.  In
// the generation's directory the pack's name is a link with the text above; whatever lies elsewhere is named by a link
// there from before it is made until after it is deleted, so that nothing is left that nobody finds.
//
// A mount that is not there says nothing of the packs on it: that is code::io, which nobody takes for damage.
// Blocking I/O, no state; any thread.
#pragma once

#include "store/store.h"

#include <optional>
#include <sys/types.h>

namespace varde::store {

constexpr std::string_view place_name = "place";  // in a run's directory: its id
constexpr std::string_view owner_name = "owner";  // in a root: its run
constexpr size_t place_id_digits = 32;

struct place {
    std::string mount;
    uid_t owner = 0;
    std::string id;
    generation_id generation;
    std::string pack;  // its final name

    std::string root() const;       // "MOUNT/varde-UID/ID"
    std::string directory() const;  // "MOUNT/varde-UID/ID/GENERATION"
    std::string text() const;       // "MOUNT/varde-UID/ID/GENERATION/PACK"
};

// Nothing for a text that text() would not have made.
std::optional<place> parse_place(std::string_view text);
bool is_place_id(std::string_view id) noexcept;
std::string owner_directory_name(uid_t owner);  // "varde-1000"

// What an `owner` file says: "12345 /flash/anna/train\n".
struct root_owner {
    uint64_t inode = 0;
    std::string path;
};
std::optional<root_owner> parse_owner(std::string_view text);

// The text of a link.  Nothing: it is not a link, or not there.
result<std::optional<std::string>> read_link(int directory, const std::string& name, const std::string& path);

// The link under a pack's name (with or without ".partial") in the directory of `generation`.  invalid: it leads to
// anything else than that pack of that generation; it is not followed.  io: it was made under another user's number
// than `owner`, the run's as this process sees it: in a user namespace the same user has several.
result<place> parse_link(const std::string& text, const std::string& path, generation_id generation,
                         const std::string& pack, uid_t owner);

// Opens the root, the mount's own path through links, nothing below it.  io: the mount is not there on this node.
result<unique_fd> open_root(const place& where);
// The generation's directory in it.  not_found: the root is there, and the generation is not.
result<unique_fd> open_there(const place& where);

}  // namespace varde::store
