// A slot on disk: one page, little-endian, of which every byte is under the checksum at its end.
//
// The page is written with one write, but neither a network file system nor a disk promises that a reader sees all or
// nothing of it: the checksum is what tells.  Fields are only ever added in `zero`; anything else is a new version.
#include "base/limits.h"
#include "pack/layout.h"
#include "store/roster.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace varde::store {

namespace {

constexpr char magic[8] = {'V', 'A', 'R', 'D', 'E', 'S', 'L', 'T'};
constexpr uint32_t format_version = 1;

struct disk_generation {
    uint64_t step;
    uint32_t what;
    uint32_t os_errno;
    uint64_t bytes_done;
    uint64_t bytes_total;
    uint64_t seal_checksum;
};

struct disk_slot {
    char magic[8];        // against a file that is no slot
    uint32_t version;     // against a reader that would misread it
    uint32_t node_index;  // against a slot copied to another node's name
    uint32_t node_count;
    uint32_t phase;
    uint64_t incarnation;
    uint64_t sequence;
    uint64_t job_id;
    uint64_t wall_ns;
    uint64_t step_min;
    uint64_t step_max;
    uint64_t drain_busy;
    uint64_t proposed_step;
    uint64_t complete_step;
    uint64_t choice_attempt;
    uint32_t choice;
    uint32_t loaded;
    uint64_t choice_step;
    uint64_t choice_incarnation;
    uint64_t confirmed_attempt;
    uint64_t verdict_attempt;
    disk_generation generations[generations_in_slot];
    char launch[128];  // texts end with at least one zero
    char host[64];
    char reason[512];
    uint64_t failed_step;
    uint64_t stall_ns;
    uint64_t drain_ns;
    uint64_t bytes_staged[generations_in_slot];
    uint64_t stage_ns;
    uint64_t step_wall_ns;
    uint64_t cut_off_ns;
    uint64_t rank_gone_wall_ns;
    uint64_t job_restarts;
    uint64_t hang_asked;
    uint64_t hang_answered;
    uint32_t suspicion;
    uint32_t suspect_rank;
    uint64_t quiet;
    std::byte zero[2952];  // room for later fields; a reader of this version ignores it
    uint64_t checksum;     // XXH3-64 of all bytes before it: against a torn read or write
};

static_assert(std::endian::native == std::endian::little,
              "slots are little-endian: a big-endian host needs conversions here");
static_assert(sizeof(disk_slot) == slot_bytes && sizeof(disk_generation) == 40);
static_assert(sizeof(disk_slot::launch) == limits::launch_bytes_max + 1,
              "two starts with a cut identity would pass for one");
static_assert(std::has_unique_object_representations_v<disk_slot>, "no padding: its bytes would be undefined");
static_assert(offsetof(disk_slot, incarnation) == 24 && offsetof(disk_slot, sequence) == 32 &&
              offsetof(disk_slot, job_id) == 40);
static_assert(offsetof(disk_slot, choice_attempt) == 96 && offsetof(disk_slot, choice) == 104 &&
              offsetof(disk_slot, choice_step) == 112);
static_assert(offsetof(disk_slot, generations) == 144 && offsetof(disk_slot, launch) == 304 &&
              offsetof(disk_slot, host) == 432);
static_assert(offsetof(disk_slot, reason) == 496 && offsetof(disk_slot, failed_step) == 1008 &&
              offsetof(disk_slot, stall_ns) == 1016 && offsetof(disk_slot, bytes_staged) == 1032 &&
              offsetof(disk_slot, stage_ns) == 1064 && offsetof(disk_slot, cut_off_ns) == 1080 &&
              offsetof(disk_slot, job_restarts) == 1096 && offsetof(disk_slot, hang_asked) == 1104 &&
              offsetof(disk_slot, zero) == 1136 && offsetof(disk_slot, checksum) == 4088);

// Copies what fits, never half a character: the text goes to people and into JSON.  `to` is zero already.
void put_text(std::string_view text, std::span<char> to) noexcept {
    size_t length = std::min(text.find('\0'), text.size());
    if (length > to.size() - 1) {
        length = to.size() - 1;
        while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) --length;
    }
    std::copy_n(text.data(), length, to.data());
}

template <size_t size>
bool get_text(const char (&from)[size], std::string& to) {
    const void* end = std::memchr(from, 0, size);
    if (end == nullptr) return false;
    to.assign(from, static_cast<size_t>(static_cast<const char*>(end) - from));
    return true;
}

template <class T>
bool get_enum(uint32_t from, T first, T last, T& to) noexcept {
    if (from < static_cast<uint32_t>(first) || from > static_cast<uint32_t>(last)) return false;
    to = static_cast<T>(from);
    return true;
}

uint64_t checksum_of(const std::byte* page) noexcept { return pack::checksum({page, offsetof(disk_slot, checksum)}); }

bool get_generations(const disk_slot& from, slot& to) {
    for (size_t i = 0; i < generations_in_slot; ++i) {
        const disk_generation& one = from.generations[i];
        generation_state& state = to.generations[i];
        if (!get_enum(one.what, outcome::none, outcome::late, state.what)) return false;
        state.step = one.step;
        state.os_errno = one.os_errno;
        state.bytes_staged = from.bytes_staged[i];
        state.bytes_done = one.bytes_done;
        state.bytes_total = one.bytes_total;
        state.seal_checksum = one.seal_checksum;
    }
    return true;
}

void get_numbers(const disk_slot& from, slot& to) noexcept {
    to.node_index = from.node_index;
    to.node_count = from.node_count;
    to.incarnation = from.incarnation;
    to.sequence = from.sequence;
    to.job_id = from.job_id;
    to.job_restarts = from.job_restarts;
    to.wall_ns = from.wall_ns;
    to.step_min = from.step_min;
    to.step_max = from.step_max;
    to.step_wall_ns = from.step_wall_ns;
    to.cut_off_ns = from.cut_off_ns;
    to.rank_gone_wall_ns = from.rank_gone_wall_ns;
    to.drain_busy = from.drain_busy;
    to.proposed_step = from.proposed_step;
    to.complete_step = from.complete_step;
    to.failed_step = from.failed_step;
    to.stall_ns = from.stall_ns;
    to.stage_ns = from.stage_ns;
    to.drain_ns = from.drain_ns;
    to.hang_asked = from.hang_asked;
    to.hang_answered = from.hang_answered;
    to.suspicion = from.suspicion;
    to.suspect_rank = from.suspect_rank;
    to.choice_attempt = from.choice_attempt;
    to.choice_step = from.choice_step;
    to.choice_incarnation = from.choice_incarnation;
    to.confirmed_attempt = from.confirmed_attempt;
    to.verdict_attempt = from.verdict_attempt;
}

void put_numbers(const slot& from, disk_slot& to) noexcept {
    to.node_index = from.node_index;
    to.node_count = from.node_count;
    to.phase = static_cast<uint32_t>(from.now);
    to.incarnation = from.incarnation;
    to.sequence = from.sequence;
    to.job_id = from.job_id;
    to.job_restarts = from.job_restarts;
    to.wall_ns = from.wall_ns;
    to.step_min = from.step_min;
    to.step_max = from.step_max;
    to.step_wall_ns = from.step_wall_ns;
    to.cut_off_ns = from.cut_off_ns;
    to.rank_gone_wall_ns = from.rank_gone_wall_ns;
    to.drain_busy = from.drain_busy;
    to.proposed_step = from.proposed_step;
    to.complete_step = from.complete_step;
    to.failed_step = from.failed_step;
    to.stall_ns = from.stall_ns;
    to.stage_ns = from.stage_ns;
    to.drain_ns = from.drain_ns;
    to.hang_asked = from.hang_asked;
    to.hang_answered = from.hang_answered;
    to.suspicion = from.suspicion;
    to.suspect_rank = from.suspect_rank;
    to.quiet = static_cast<uint64_t>(from.quiet);
    to.choice_attempt = from.choice_attempt;
    to.choice = static_cast<uint32_t>(from.choice);
    to.loaded = static_cast<uint32_t>(from.loaded);
    to.choice_step = from.choice_step;
    to.choice_incarnation = from.choice_incarnation;
    to.confirmed_attempt = from.confirmed_attempt;
    to.verdict_attempt = from.verdict_attempt;
}

}  // namespace

void encode_slot(const slot& from, std::array<std::byte, slot_bytes>& to) noexcept {
    disk_slot page{};
    std::memcpy(page.magic, magic, sizeof magic);
    page.version = format_version;
    put_numbers(from, page);
    for (size_t i = 0; i < generations_in_slot; ++i) {
        const generation_state& state = from.generations[i];
        page.generations[i] = {state.step,        static_cast<uint32_t>(state.what),
                               state.os_errno,    state.bytes_done,
                               state.bytes_total, state.seal_checksum};
        page.bytes_staged[i] = state.bytes_staged;
    }
    put_text(from.launch, page.launch);
    put_text(from.host, page.host);
    put_text(from.reason, page.reason);
    page.checksum = checksum_of(reinterpret_cast<const std::byte*>(&page));
    std::memcpy(to.data(), &page, sizeof page);
}

result<slot> decode_slot(const std::array<std::byte, slot_bytes>& from) {
    disk_slot page;
    std::memcpy(&page, from.data(), sizeof page);
    if (std::memcmp(page.magic, magic, sizeof magic) != 0)
        return fail(code::damaged, "it does not begin with the mark of a slot");
    if (page.checksum != checksum_of(from.data())) return fail(code::damaged, "its checksum is wrong");
    if (page.version != format_version) {
        return fail(code::damaged, "it has format version " + std::to_string(page.version) +
                                       ", this program reads version " + std::to_string(format_version));
    }
    slot to;
    get_numbers(page, to);
    if (page.node_index >= page.node_count) return fail(code::damaged, "its node index is not below its node count");
    if (!get_enum(page.phase, phase::opening, phase::ended, to.now)) return fail(code::damaged, "its phase is unknown");
    if (!get_enum(page.choice, choice_kind::none, choice_kind::refused, to.choice))
        return fail(code::damaged, "its choice is unknown");
    if (!get_enum(page.loaded, verdict::none, verdict::failed, to.loaded))
        return fail(code::damaged, "its verdict is unknown");
    if (page.quiet > static_cast<uint64_t>(lull::storage)) return fail(code::damaged, "its lull is unknown");
    to.quiet = static_cast<lull>(page.quiet);
    if (!get_generations(page, to)) return fail(code::damaged, "an outcome in it is unknown");
    if (!get_text(page.launch, to.launch) || !get_text(page.host, to.host) || !get_text(page.reason, to.reason))
        return fail(code::damaged, "a text in it has no end");
    return to;
}

}  // namespace varde::store
