// The simulated storage.
#include "storage.h"

#include "store/judge.h"
#include "store/manifest.h"
#include "store/names.h"

#include <algorithm>

namespace varde::simulate {

using store::generation_id;
using store::generation_status;

namespace {

constexpr uint64_t quiet_ns = 120 * ns_per_s;

}  // namespace

void storage::write(const store::slot& slot, uint64_t visible_ns) {
    slots_.resize(std::max<size_t>(slots_.size(), slot.node_index + 1));
    auto& to = slots_[slot.node_index];
    if (to.on_the_way.empty() && visible_ns == 0) to.visible = slot;
    else to.on_the_way.emplace_back(std::max(visible_ns, to.on_the_way.empty() ? 0 : to.on_the_way.back().first), slot);
}

const store::slot* storage::read(uint32_t node_index, uint64_t now_ns) {
    if (node_index >= slots_.size()) return nullptr;
    auto& from = slots_[node_index];
    for (; !from.on_the_way.empty() && from.on_the_way.front().first <= now_ns; from.on_the_way.pop_front())
        from.visible = std::move(from.on_the_way.front().second);
    return from.visible ? &*from.visible : nullptr;
}

storage::contents& storage::open(generation_id id) {
    auto& of = generations_[id];
    of.sealed.resize(with_.node_count);
    of.partial.resize(with_.node_count);
    return of;
}

void storage::begin_pack(generation_id id, uint32_t node_index) { open(id).partial[node_index] = true; }

void storage::seal_pack(generation_id id, uint32_t node_index, uint64_t now_ns) {
    auto& of = open(id);
    of.partial[node_index] = false;
    of.sealed_count += of.sealed[node_index] ? 0 : 1;
    of.sealed[node_index] = true;
    of.changed_ns = now_ns;
}

void storage::abandon_pack(generation_id id, uint32_t node_index) {
    if (const auto found = generations_.find(id); found != generations_.end())
        found->second.partial[node_index] = false;
}

result<void> storage::commit(const store::manifest& record) {
    const auto found = generations_.find(record.id);
    if (found == generations_.end()) return fail(code::not_found, "it is gone");
    auto& there = found->second.record;
    if (there && !store::same_packs(*there, record)) return fail(code::mismatch, "committed with other packs");
    there = record;
    return {};
}

// By the names in the directory and the manifest, as judge() of lib/store does; sizes are always right here.
store::generation storage::judge(generation_id id, const contents& of) const {
    store::judged judged;
    judged.what.id = id;
    const uint32_t count = with_.node_count;
    std::vector<std::string> names;
    for (uint32_t index = 0; index < count; index++) {
        if (of.sealed[index]) names.push_back(store::pack_name(index, count));
        else if (of.partial[index])
            names.push_back(store::pack_name(index, count) +
                            (with_.made == mistake::partial_packs ? "" : std::string(store::partial_suffix)));
    }
    store::judge_names(names, judged);
    judged.record = of.record;
    if (judged.record) store::judge_record(judged);
    if (of.damaged) judged.what.status = generation_status::damaged;
    return judged.what;
}

result<store::generation> storage::choose(const generation_id* before, uint64_t now_ns) const {
    store::candidates of_run(before);
    for (const auto& [id, of] : generations_) {
        auto what = judge(id, of);
        if (what.status == generation_status::incomplete && now_ns - of.changed_ns < quiet_ns)
            what.status = generation_status::writing;
        if (of_run.take(what)) return what;
    }
    return of_run.none("the run");
}

std::vector<generation_id> storage::retire(generation_id newest) {
    store::retention of_run(with_.keep, newest);
    for (const auto& [id, of] : generations_) {
        if (!of_run.in_question(id)) continue;
        auto what = judge(id, of);
        if (with_.made == mistake::retire_early && id == newest) what.status = generation_status::complete;
        of_run.take(what, of_run.wants(what));
    }
    const auto superfluous = of_run.superfluous();
    for (const auto id : superfluous) generations_.erase(id);
    return superfluous;
}

bool storage::has_all_packs(generation_id id) const {
    const auto found = generations_.find(id);
    return found != generations_.end() && !found->second.damaged && found->second.sealed_count == with_.node_count;
}

std::optional<generation_id> storage::newest_complete() const {
    for (const auto& [id, of] : generations_) {
        if (has_all_packs(id)) return id;
    }
    return std::nullopt;
}

uint64_t storage::complete_count() const {
    return static_cast<uint64_t>(std::count_if(generations_.begin(), generations_.end(),
                                               [this](const auto& one) { return has_all_packs(one.first); }));
}

}  // namespace varde::simulate
