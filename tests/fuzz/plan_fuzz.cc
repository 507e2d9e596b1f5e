// The text of a plan, hostile: what is accepted must be exactly what would be written, and its parts must fit.
#include "topo/plan.h"

#include <cstdlib>

using namespace varde::topo;

namespace {

void require(bool holds) {
    if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto read = parse_plan(text);
    if (!read) return 0;
    require(format_plan(*read) == text);
    uint64_t sum = 0;
    for (const auto& each : read->shares) sum += each.bytes;
    require(sum == read->arena_bytes && read->writers.any());
    for (const auto& each : read->gpus) require(node_of_gpu(*read, each.pci) == each.node);
    return 0;
}
