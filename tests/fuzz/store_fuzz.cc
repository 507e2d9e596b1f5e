// Bytes of a slot, a manifest, a mark of damage and names, all hostile.  What is accepted must come back unchanged from
// a second round.
#include "pack/layout.h"
#include "store/manifest.h"
#include "store/names.h"

#include <cstdlib>
#include <cstring>

using namespace varde;
using namespace varde::store;

namespace {

void require(bool holds) {
    if (!holds) std::abort();
}

void check_slot(const std::array<std::byte, slot_bytes>& page) {
    const result<slot> read = decode_slot(page);
    if (!read) return;
    std::array<std::byte, slot_bytes> again{};
    encode_slot(*read, again);
    const result<slot> second = decode_slot(again);
    require(second.has_value() && second->node_index == read->node_index && second->generations == read->generations);
}

void try_slot(std::string_view bytes) {
    std::array<std::byte, slot_bytes> page{};
    std::memcpy(page.data(), bytes.data(), std::min(bytes.size(), page.size()));
    check_slot(page);
    // Again with a checksum that fits, or the fuzzer never gets past it.
    const uint64_t sum = pack::checksum({page.data(), slot_bytes - sizeof(uint64_t)});
    std::memcpy(page.data() + slot_bytes - sizeof sum, &sum, sizeof sum);
    check_slot(page);
}

void try_manifest(std::string_view text) {
    const result<manifest> read = decode_manifest(text);
    if (!read) return;
    const result<std::string> written = encode_manifest(*read);
    require(written.has_value());
    const result<manifest> second = decode_manifest(*written);
    require(second.has_value() && same_packs(*read, *second));
}

void try_names(std::string_view name) {
    if (const result<generation_id> id = parse_generation_name(name)) require(generation_name(*id) == name);
    if (const std::optional<uint64_t> claim = parse_claim_name(name)) require(claim_name(*claim) == name);
    if (const std::optional<pack_name_parts> parts = parse_pack_name(name)) {
        require(parts->node_index < parts->node_count);
        require(pack_name(parts->node_index, parts->node_count) + std::string(parts->partial ? partial_suffix : "") ==
                name);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    try_slot(bytes);
    try_manifest(bytes);
    try_names(bytes);
    require(!decode_damage(bytes).empty());
    return 0;
}
