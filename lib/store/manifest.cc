// The commit record as JSON.  64-bit checksums are hexadecimal text, because many JSON readers have only 53 bits for a
// number.
#include "store/manifest.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/units.h"

#include <charconv>
#include <nlohmann/json.hpp>

namespace varde::store {

namespace {

using json = nlohmann::ordered_json;  // members stay in the order in which people want to read them

constexpr const char* format_name = "varde-manifest";
constexpr uint64_t format_version = 1;
constexpr uint64_t text_bytes_max = 255;

bool get_number(const json& from, const char* name, uint64_t most, uint64_t& to) {
    const auto found = from.find(name);
    if (found == from.end() || !found->is_number_unsigned() || found->get<uint64_t>() > most) return false;
    to = found->get<uint64_t>();
    return true;
}

bool get_text(const json& from, const char* name, std::string& to) {
    const auto found = from.find(name);
    if (found == from.end() || !found->is_string() || found->get_ref<const std::string&>().size() > text_bytes_max)
        return false;
    to = found->get<std::string>();
    return true;
}

bool get_hexadecimal(const json& from, const char* name, uint64_t& to) {
    std::string text;
    if (!get_text(from, name, text) || text.size() != 16) return false;
    const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), to, 16);
    return wrong == std::errc() && end == text.data() + text.size();
}

// What both directions refuse; the first broken rule, or nothing.
const char* broken_rule(const manifest& record) {
    if (record.run.empty() || record.run.size() > limits::run_name_bytes_max)
        return "the run's name is empty or too long";
    if (record.packs.empty() || record.packs.size() > limits::nodes_max) return "the number of packs is impossible";
    if (record.world == 0 || record.world > limits::world_max) return "the number of ranks is impossible";
    if (record.library.size() > text_bytes_max) return "the library's version is too long";
    uint64_t total = 0;
    for (size_t i = 0; i < record.packs.size(); ++i) {
        if (record.packs[i].node_index != i) return "the packs are not in the order of the nodes";
        if (record.packs[i].host.size() > text_bytes_max) return "a host's name is too long";
        const std::optional<uint64_t> sum = checked_add(total, record.packs[i].size_bytes);
        if (!sum || *sum > INT64_MAX || record.packs[i].size_bytes == 0) return "a pack's size is impossible";
        total = *sum;
    }
    return nullptr;
}

failure bad(const char* reason) { return fail(code::damaged, std::string("the manifest cannot be used: ") + reason); }

result<manifest> read_members(const json& from) {
    std::string format;
    uint64_t version = 0;
    if (!from.is_object() || !get_text(from, "format", format) || format != format_name)
        return bad("it is not in the form of one");
    if (!get_number(from, "version", UINT64_MAX, version) || version != format_version)
        return bad("this program does not know its version");
    manifest record;
    uint64_t world = 0;
    if (!get_text(from, "run", record.run) || !get_text(from, "library", record.library) ||
        !get_number(from, "step", UINT64_MAX, record.id.step) ||
        !get_number(from, "incarnation", UINT64_MAX, record.id.incarnation) ||
        !get_number(from, "world", limits::world_max, world) ||
        !get_number(from, "wall_ns", UINT64_MAX, record.wall_ns))
        return bad("a member is missing or of the wrong type");
    record.world = static_cast<uint32_t>(world);
    const auto packs = from.find("packs");
    if (packs == from.end() || !packs->is_array() || packs->size() > limits::nodes_max)
        return bad("it has no list of packs");
    record.packs.reserve(packs->size());
    for (const json& one : *packs) {
        manifest_pack pack;
        uint64_t node = 0;
        if (!one.is_object() || !get_number(one, "node", limits::nodes_max, node) ||
            !get_text(one, "host", pack.host) || !get_number(one, "size_bytes", INT64_MAX, pack.size_bytes) ||
            !get_hexadecimal(one, "seal", pack.seal_checksum))
            return bad("a member of a pack is missing or of the wrong type");
        pack.node_index = static_cast<uint32_t>(node);
        record.packs.push_back(std::move(pack));
    }
    if (const char* rule = broken_rule(record)) return bad(rule);
    return record;
}

// Host names come from the system and need not be UTF-8; dump() would throw.
std::string dump(const json& document) { return document.dump(1, ' ', false, json::error_handler_t::replace) + "\n"; }

std::string time_text(uint64_t wall_ns) {
    const time_t seconds = static_cast<time_t>(wall_ns / ns_per_s);
    tm parts{};
    char text[32] = "";
    if (::gmtime_r(&seconds, &parts) != nullptr) ::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}

}  // namespace

result<std::string> encode_manifest(const manifest& record) {
    if (const char* rule = broken_rule(record))
        return fail(code::invalid, std::string("the generation cannot be recorded: ") + rule);
    try {
        json document{{"format", format_name},
                      {"version", format_version},
                      {"run", record.run},
                      {"step", record.id.step},
                      {"incarnation", record.id.incarnation},
                      {"world", record.world},
                      {"node_count", record.packs.size()},
                      {"time", time_text(record.wall_ns)},
                      {"wall_ns", record.wall_ns},
                      {"library", record.library},
                      {"packs", json::array()}};
        for (const manifest_pack& pack : record.packs) {
            document["packs"].push_back({{"node", pack.node_index},
                                         {"host", pack.host},
                                         {"size_bytes", pack.size_bytes},
                                         {"seal", hexadecimal(pack.seal_checksum)}});
        }
        return dump(document);
    } catch (const std::exception&) {
        return fail(code::no_memory, "couldn't write the manifest: out of memory");  // nothing else throws here
    }
}

result<manifest> decode_manifest(std::string_view text) {
    if (text.size() > manifest_bytes_max) return bad("it is too long");
    try {
        const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
        if (document.is_discarded()) return bad("it is not JSON");
        return read_members(document);
    } catch (const std::bad_alloc&) {
        return fail(code::no_memory, "couldn't read the manifest: out of memory");
    } catch (const std::exception& wrong) { return bad(wrong.what()); }
}

bool same_packs(const manifest& a, const manifest& b) noexcept {
    const auto same = [](const manifest_pack& x, const manifest_pack& y) {
        return x.node_index == y.node_index && x.size_bytes == y.size_bytes && x.seal_checksum == y.seal_checksum;
    };
    return a.run == b.run && a.id == b.id && a.world == b.world && a.packs.size() == b.packs.size() &&
           std::equal(a.packs.begin(), a.packs.end(), b.packs.begin(), same);
}

std::string encode_damage(const std::string& reason) {
    const uint64_t now = wall_ns();
    return dump(json{{"reason", reason}, {"time", time_text(now)}, {"wall_ns", now}});
}

std::string decode_damage(std::string_view text) {
    const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
    std::string reason;
    constexpr uint64_t reason_bytes_max = 4096;
    if (document.is_object()) {
        const auto found = document.find("reason");
        if (found != document.end() && found->is_string() &&
            found->get_ref<const std::string&>().size() <= reason_bytes_max)
            reason = found->get<std::string>();
    }
    return reason.empty() ? "marked as damaged, without a reason" : reason;
}

}  // namespace varde::store
