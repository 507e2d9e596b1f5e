// The simulated storage: claims, slots and generations of one run.  What a generation is worth, which one a start takes
// and which ones go is decided by the code of lib/store.
#pragma once

#include "plan.h"
#include "store/selection.h"

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace varde::simulate {

class storage {
public:
    explicit storage(const plan& with) : with_(with) {}

    // ---- the roster
    uint64_t claim() { return ++claims_; }
    uint64_t newest_claim() const noexcept { return claims_; }
    void write(const store::slot& slot, uint64_t visible_ns);
    const store::slot* read(uint32_t node_index, uint64_t now_ns);

    // ---- generations
    void begin_pack(store::generation_id id, uint32_t node_index);
    void seal_pack(store::generation_id id, uint32_t node_index, uint64_t now_ns);
    void abandon_pack(store::generation_id id, uint32_t node_index);
    result<void> commit(const store::manifest& record);
    void mark_damaged(store::generation_id id) { generations_[id].damaged = true; }
    result<store::generation> choose(const store::generation_id* before, uint64_t now_ns) const;
    std::vector<store::generation_id> retire(store::generation_id newest);

    // ---- the truth, for the promises
    bool has_all_packs(store::generation_id id) const;
    std::optional<store::generation_id> newest_complete() const;
    uint64_t complete_count() const;

private:
    struct contents {
        std::vector<bool> sealed;
        std::vector<bool> partial;
        uint32_t sealed_count = 0;
        uint64_t changed_ns = 0;
        bool damaged = false;
        std::optional<store::manifest> record;
    };
    store::generation judge(store::generation_id id, const contents& of) const;
    contents& open(store::generation_id id);

    const plan& with_;
    uint64_t claims_ = 0;
    struct written {
        std::optional<store::slot> visible;
        std::deque<std::pair<uint64_t, store::slot>> on_the_way;
    };
    std::vector<written> slots_;
    std::map<store::generation_id, contents, std::greater<>> generations_;
};

}  // namespace varde::simulate
