// What is decided from judged generations: which one a start takes, and which ones have become superfluous.
//
// Pure: both are told of one generation after the other, newest first, because judging one costs storage reads; so
// tests and the simulation drive the same code as the run's directory.
#pragma once

#include "store/store.h"

#include <string>
#include <vector>

namespace varde::store {

// For a start: the newest complete generation that is older than `before` (nullptr: no bound).
class candidates {
public:
    explicit candidates(const generation_id* before) : before_(before) {}
    // Whether it is the one.
    bool take(const generation& of);
    // None was: not_found or damaged, as run_directory::choose() says.
    failure none(const std::string& run_path) const;

private:
    const generation_id* before_;
    unsigned damaged_count_ = 0;
    std::string reasons_;  // why the newest few are no use
};

// For retirement: what of a run stays, and what may go.
class retention {
public:
    retention(uint32_t keep, generation_id newest) : keep_(keep), newest_(newest) {}
    // Newer ones than the one just committed are nobody's to judge.
    bool in_question(generation_id id) const noexcept { return id <= newest_; }
    // It may stay for a restart: so it must be looked at pack by pack before it counts.
    bool wants(const generation& of) const noexcept;
    // `wanted`: what wants() said before that look.
    void take(const generation& of, bool wanted);

    const std::vector<generation_id>& kept() const noexcept { return kept_; }
    // Oldest first: whatever stops the deletion, the newer ones are still there.  None where nothing is kept.
    std::vector<generation_id> superfluous() const;

private:
    uint32_t keep_;
    generation_id newest_;
    std::vector<generation_id> kept_;
    std::vector<generation_id> superfluous_;  // newest first
};

}  // namespace varde::store
