// What a restarted worker must know of its predecessor: the newest record of each kind and rank, in memory that
// outlives both.
//
// Two memfds made by the parent; one is the log, the other takes its place when the log has grown (compaction).  A
// record counts once its checksum is there, so a worker that is killed while it appends loses that record and nothing
// else.  Main loop only.
#pragma once

#include "base/handle.h"
#include "base/result.h"

#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace varde::agent {

enum class record : uint32_t { hello = 1, layout = 2, save = 3, peer = 4, node = 5, outcome = 6 };

class ledger {
public:
    static constexpr uint32_t no_rank = UINT32_MAX;
    using key = std::pair<record, uint32_t>;  // kind, local rank

    // Makes the two memfds (parent).
    static result<std::array<unique_fd, 2>> make();
    // Opens them and reads what is there (worker).
    static result<ledger> open(std::array<unique_fd, 2> files);

    result<void> put(record kind, uint32_t local_rank, const std::string& value);
    result<void> clear();  // a new start: nothing of the old one counts
    const std::map<key, std::string>& records() const noexcept { return records_; }

private:
    result<void> append(const std::string& bytes);
    result<void> compact();

    std::array<unique_fd, 2> files_;
    size_t active_ = 0;
    uint64_t epoch_ = 0;  // of the active file; the other one has a smaller number
    uint64_t end_ = 0;
    std::map<key, std::string> records_;
};

}  // namespace varde::agent
