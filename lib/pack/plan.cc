// plan_restore(): boxes of elements are cut out of each other until every wanted byte has a source.
//
// What is still wanted of a shard is a list of boxes, at first the shard itself.  Each saved piece takes its share
// out of them.  In the ordinary case, the same layout as before, the first piece takes all.
#include "pack/plan.h"

#include "base/checked.h"
#include "pack/text.h"

#include <algorithm>
#include <unordered_map>

namespace varde::pack {

namespace {

// Bounds what a restore onto a bad match of layouts may cost: 2^25 pieces are 1.3 GB of plan.
constexpr size_t pieces_max = 1U << 25;
// Pieces of one shard that are still to be found; a grid of 100 x 100 ranks needs some hundred.
constexpr size_t boxes_max = 1U << 16;

// A box of elements within the global tensor; both lists have a number per dimension.
struct box {
    std::vector<uint64_t> offset;
    std::vector<uint64_t> shape;
};

box box_of(const shard& what) {
    if (!what.global_shape.empty()) return {what.offset, what.shape};
    return {std::vector<uint64_t>(what.shape.size(), 0), what.shape};
}

const std::vector<uint64_t>& global_of(const shard& what) {
    return what.global_shape.empty() ? what.shape : what.global_shape;
}

bool empty(const box& what) { return std::find(what.shape.begin(), what.shape.end(), 0U) != what.shape.end(); }

// False where they have no element in common.
bool intersect(const box& a, const box& b, box& ret_common) {
    ret_common = a;
    for (size_t dim = 0; dim < a.shape.size(); dim++) {
        const uint64_t begin = std::max(a.offset[dim], b.offset[dim]);
        const uint64_t end = std::min(a.offset[dim] + a.shape[dim], b.offset[dim] + b.shape[dim]);
        if (begin >= end) return false;
        ret_common.offset[dim] = begin;
        ret_common.shape[dim] = end - begin;
    }
    return true;
}

// What remains of `whole` without `part`, which lies within it: in each dimension the slab before and the slab behind.
void subtract(box whole, const box& part, std::vector<box>& rest) {
    for (size_t dim = 0; dim < whole.shape.size(); dim++) {
        const uint64_t end = whole.offset[dim] + whole.shape[dim];
        const uint64_t part_end = part.offset[dim] + part.shape[dim];
        if (part.offset[dim] > whole.offset[dim]) {
            rest.push_back(whole);
            rest.back().shape[dim] = part.offset[dim] - whole.offset[dim];
        }
        if (part_end < end) {
            rest.push_back(whole);
            rest.back().offset[dim] = part_end;
            rest.back().shape[dim] = end - part_end;
        }
        whole.offset[dim] = part.offset[dim];
        whole.shape[dim] = part.shape[dim];
    }
}

// Where a saved piece is found.
struct candidate {
    uint32_t source = 0;
    uint32_t shard_index = 0;
};

std::string list_text(const std::vector<uint64_t>& numbers) {
    std::string text = "[";
    for (const uint64_t each : numbers) {
        if (text.size() > 1) text += ", ";
        append_number(text, each);
    }
    return text += "]";
}

failure unfit(const shard& what, const std::string& reason) {
    return fail(code::mismatch, "couldn't restore tensor " + in_quotes(what.name) + ": " + reason);
}

// Writes the runs that two shards have in common within a box as pieces.
class run_writer {
public:
    run_writer(const shard& wanted, const shard& saved, const box& wanted_box, const box& saved_box, const box& common)
        : wanted_(wanted), saved_(saved), wanted_box_(wanted_box), saved_box_(saved_box), common_(common) {}
    result<void> write(piece start, std::vector<piece>& pieces);

private:
    uint64_t element_index(const box& whole, const std::vector<uint64_t>& at) const {
        uint64_t index = 0;
        for (size_t dim = 0; dim < at.size(); dim++) index = index * whole.shape[dim] + (at[dim] - whole.offset[dim]);
        return index;
    }
    // Trailing dimensions that both shards hold in full make one run together with the dimension before them.
    size_t run_dim() const {
        size_t dim = common_.shape.size();
        while (dim > 0) {
            dim--;
            if (common_.shape[dim] != wanted_box_.shape[dim] || common_.shape[dim] != saved_box_.shape[dim]) break;
        }
        return dim;
    }

    const shard& wanted_;
    const shard& saved_;
    const box& wanted_box_;
    const box& saved_box_;
    const box& common_;
};

result<void> run_writer::write(piece start, std::vector<piece>& pieces) {
    const uint64_t bits = dtype_bits(wanted_.type);
    const size_t run_from = run_dim();
    uint64_t run_bits = bits;
    for (size_t dim = run_from; dim < common_.shape.size(); dim++) run_bits *= common_.shape[dim];
    std::vector<uint64_t> at = common_.offset;
    for (;;) {
        const uint64_t wanted_bits = element_index(wanted_box_, at) * bits;
        const uint64_t saved_bits = element_index(saved_box_, at) * bits;
        if ((wanted_bits | saved_bits | run_bits) % 8 != 0)
            return unfit(wanted_, std::string("pieces of ") + dtype_name(wanted_.type) +
                                      " would be cut within a byte; split it at even places");
        if (pieces.size() == pieces_max)
            return fail(code::no_memory, "couldn't restore tensor " + in_quotes(wanted_.name) +
                                             ": it falls into more than " + std::to_string(pieces_max) +
                                             " pieces; restart with the layout that was saved");
        start.shard_offset = wanted_bits / 8;
        start.source_offset = saved_.offset_bytes + saved_bits / 8;
        start.size_bytes = run_bits / 8;
        pieces.push_back(start);
        // The next run: count up the dimensions before it, the last first.
        size_t dim = run_from;
        while (dim > 0) {
            dim--;
            if (++at[dim] < common_.offset[dim] + common_.shape[dim]) break;
            at[dim] = common_.offset[dim];
            if (dim == 0) return {};
        }
        if (run_from == 0) return {};
    }
}

class planner {
public:
    planner(const range& wanted, std::span<const range> saved) : wanted_(wanted), saved_(saved) {
        size_t count = 0;
        for (const range& each : saved) count += each.shards.size();
        by_name_.reserve(count);
        next_.reserve(count);
        found_.reserve(count);
        // Backwards, so that each chain of equal names runs forwards.
        for (size_t source = saved.size(); source-- > 0;) {
            for (size_t index = saved[source].shards.size(); index-- > 0;) add(source, index);
        }
    }
    result<std::vector<piece>> plan();

private:
    static constexpr uint32_t none = UINT32_MAX;

    void add(size_t source, size_t index) {
        const auto [head, fresh] = by_name_.try_emplace(saved_[source].shards[index].name, none);
        found_.push_back({static_cast<uint32_t>(source), static_cast<uint32_t>(index)});
        next_.push_back(head->second);
        head->second = static_cast<uint32_t>(found_.size() - 1);
    }
    result<std::vector<candidate>> candidates(const shard& what) const;
    result<void> plan_shard(uint32_t index);
    result<void> take(uint32_t index, const box& whole, candidate from, std::vector<box>& open);

    const range& wanted_;
    std::span<const range> saved_;
    std::unordered_map<std::string_view, uint32_t> by_name_;  // to the first of a chain in found_
    std::vector<candidate> found_;
    std::vector<uint32_t> next_;
    std::vector<piece> pieces_;
};

// The saved pieces of the wanted tensor, those of the same rank first.
result<std::vector<candidate>> planner::candidates(const shard& what) const {
    const auto head = by_name_.find(what.name);
    if (head == by_name_.end())
        return unfit(what, "nobody saved a tensor of this name; register what was saved, or start another run");
    std::vector<candidate> fitting;
    for (uint32_t at = head->second; at != none; at = next_[at]) {
        const shard& saved = saved_[found_[at].source].shards[found_[at].shard_index];
        if (saved.type == what.type && global_of(saved) == global_of(what)) fitting.push_back(found_[at]);
    }
    if (fitting.empty()) {
        const candidate first = found_[head->second];
        const shard& saved = saved_[first.source].shards[first.shard_index];
        return unfit(what, "it was saved as " + std::string(dtype_name(saved.type)) + " " +
                               list_text(global_of(saved)) + ", but " + dtype_name(what.type) + " " +
                               list_text(global_of(what)) + " is registered");
    }
    std::stable_partition(fitting.begin(), fitting.end(),
                          [&](const candidate& each) { return saved_[each.source].rank == wanted_.rank; });
    return fitting;
}

// Takes out of the open boxes what one saved piece holds.
result<void> planner::take(uint32_t index, const box& whole, candidate from, std::vector<box>& open) {
    const shard& wanted = wanted_.shards[index];
    const shard& saved = saved_[from.source].shards[from.shard_index];
    const box saved_box = box_of(saved);
    std::vector<box> rest;
    for (box& each : open) {
        box common;
        if (!intersect(each, saved_box, common)) {
            rest.push_back(std::move(each));
            continue;
        }
        const piece start{.shard_index = index, .source = from.source};
        if (auto done = run_writer(wanted, saved, whole, saved_box, common).write(start, pieces_); !done) return done;
        subtract(std::move(each), common, rest);
        if (rest.size() > boxes_max)
            return fail(code::no_memory, "couldn't restore tensor " + in_quotes(wanted.name) +
                                             ": what was saved of it is cut too finely");
    }
    open = std::move(rest);
    return {};
}

result<void> planner::plan_shard(uint32_t index) {
    const shard& wanted = wanted_.shards[index];
    auto from = candidates(wanted);
    if (!from) return std::move(from).error();
    const box whole = box_of(wanted);
    if (empty(whole)) return {};
    std::vector<box> open{whole};
    for (const candidate& each : *from) {
        if (auto done = take(index, whole, each, open); !done) return done;
        if (open.empty()) return {};
    }
    return unfit(wanted, "nobody saved its part at " + list_text(open.front().offset) + " of size " +
                             list_text(open.front().shape));
}

// Joins pieces that follow each other on both sides.
void merge(std::vector<piece>& pieces) {
    size_t last = 0;
    for (size_t index = 1; index < pieces.size(); index++) {
        piece& before = pieces[last];
        const piece& each = pieces[index];
        const bool follows = each.source == before.source && each.shard_index == before.shard_index &&
                             each.source_offset == before.source_offset + before.size_bytes &&
                             each.shard_offset == before.shard_offset + before.size_bytes;
        if (follows) before.size_bytes += each.size_bytes;
        else pieces[++last] = each;
    }
    if (!pieces.empty()) pieces.resize(last + 1);
}

result<std::vector<piece>> planner::plan() {
    pieces_.reserve(wanted_.shards.size());
    for (size_t index = 0; index < wanted_.shards.size(); index++) {
        if (auto done = plan_shard(static_cast<uint32_t>(index)); !done) return std::move(done).error();
    }
    const auto earlier = [](const piece& a, const piece& b) {
        return a.source != b.source ? a.source < b.source : a.source_offset < b.source_offset;
    };
    if (!std::is_sorted(pieces_.begin(), pieces_.end(), earlier)) std::sort(pieces_.begin(), pieces_.end(), earlier);
    merge(pieces_);
    return std::move(pieces_);
}

}  // namespace

result<std::vector<piece>> plan_restore(const range& wanted, std::span<const range> saved) {
    return planner(wanted, saved).plan();
}

}  // namespace varde::pack
