// A worker that takes over from one that died: what the ledger tells of the ranks, and the generation that was under
// way.
#include "agent/node.h"

#include "arena/wire.h"

#include <algorithm>
#include <sys/syscall.h>
#include <unistd.h>

namespace varde::agent {

void node::put_node_record() {
    arena::wire_writer value;
    value.number(static_cast<uint32_t>(stage_));
    value.number(mine_.incarnation);
    value.number(start_.restored_step);
    value.number(mine_.complete_step);
    put_record(record::node, ledger::no_rank, value.bytes());
}

void node::recover_node(const std::string& bytes) {
    arena::wire_reader value(bytes);
    stage_ = static_cast<stage>(value.number<uint32_t>());
    mine_.incarnation = value.number<uint64_t>();
    start_.restored_step = value.number<uint64_t>();
    mine_.complete_step = value.number<uint64_t>();
    const auto last = ledger_.records().find({record::outcome, ledger::no_rank});
    if (last == ledger_.records().end()) return;
    arena::wire_reader about(last->second);
    const auto step = about.number<uint64_t>();
    drain_outcome how;
    how.sealed = about.number<uint32_t>() == static_cast<uint32_t>(store::outcome::sealed);
    const auto size_bytes = about.number<uint64_t>();
    how.seal_checksum = about.number<uint64_t>();
    set_outcome(step, how.sealed ? store::outcome::sealed : store::outcome::failed, &how, size_bytes);
}

// Why a generation that was under way cannot be written by another worker; null where it can.
const char* node::what_is_lost(uint32_t index, const arena::save& save) const {
    const auto& rank = ranks_[index];
    // A layout that came after the save describes the next one: what this one had staged can no longer be named.
    if (!rank.range || save.layout_version != rank.layout_version)
        return "its layout changed while the agent's worker was restarted";
    // A range larger than its slab goes through it as through a ring: what was released has been overwritten.
    const uint64_t places = slab_of(index).size_bytes / chunk_bytes();
    if (save.chunk_count > places && control_of(index)->released.load() > save.first_chunk) {
        return "a part of it was only in the file of the worker that died; a larger --ckpt-memory keeps all of it in "
               "memory";
    }
    return nullptr;
}

result<void> node::recover_rank(uint32_t index) {
    const auto& records = ledger_.records();
    const auto find = [&](record kind) { return records.find({kind, index}); };
    const auto hello = find(record::hello);
    const auto peer = find(record::peer);
    if (hello == records.end() || peer == records.end()) return {};
    auto facts = arena::decode<arena::hello>(hello->second);
    if (!facts) return facts.error();
    auto& rank = ranks_[index];
    rank.facts = *facts;
    rank.present = true;
    arena::wire_reader about(peer->second);
    rank.pid = about.number<int32_t>();
    if (const auto slab = about.number<uint32_t>(); slab < facts_.local_count) slabs_[index] = slab;
    processes_version_++;
    rank.process.reset(static_cast<int>(::syscall(SYS_pidfd_open, rank.pid, 0)));
    if (const auto layout = find(record::layout); layout != records.end()) {
        auto body = arena::decode<arena::layout>(layout->second);
        if (!body) return body.error();
        if (auto done = on_layout(index, std::move(*body)); !done) return done;
    }
    rank.next_chunk = control_of(index)->released.load();
    if (const auto save = find(record::save); save != records.end()) {
        auto body = arena::decode<arena::save>(save->second);
        if (!body) return body.error();
        // An older generation that was still draining is lost with the old worker; its chunks are let go.
        const drain_source source{control_of(index), nullptr, 0, body->first_chunk, body->chunk_count};
        if (control_of(index)->released.load() < body->first_chunk) release(source, body->first_chunk);
        rank.next_chunk = body->first_chunk;
        const char* lost = what_is_lost(index, *body);
        const auto* state = state_of(body->step);  // pending: another rank's save of it has been taken over
        const bool open = state == nullptr || state->what == store::outcome::pending;
        if (lost != nullptr && open) drop_work(body->step, store::outcome::failed, lost);
        if (lost != nullptr ||
            !open) {  // only its chunks are left to be let go, also those that are still to be staged
            auto& work = work_of(body->step);
            work.saves[index] = *body;
            let_go(work, index);
            rank.next_chunk = source.end_chunk();
            rank.saved_step = body->step;
        } else if (auto done = on_save(index, *body); !done) return done;
    }
    if (!rank.process) rank_is_gone(index);
    return {};
}

result<void> node::recover() {
    const auto& records = ledger_.records();
    const auto about = records.find({record::node, ledger::no_rank});
    const auto first = std::find_if(records.begin(), records.end(),
                                    [](const auto& entry) { return entry.first.first == record::hello; });
    if (first == records.end()) return {};
    auto facts = arena::decode<arena::hello>(first->second);
    if (!facts) return facts.error();
    facts_ = *facts;
    ranks_.resize(facts_.local_count);
    slabs_.assign(facts_.local_count, std::nullopt);
    if (about != records.end()) recover_node(about->second);
    if (stage_ != stage::training) stage_ = stage::opening;  // the ranks ask again
    log_.warning("a new worker takes over " + std::to_string(facts_.local_count) + " ranks of '" + facts_.launch + "'");
    open_run();
    for (uint32_t rank = 0; rank < facts_.local_count; rank++) {
        if (auto done = recover_rank(rank); !done) return done;
    }
    return {};
}

}  // namespace varde::agent
