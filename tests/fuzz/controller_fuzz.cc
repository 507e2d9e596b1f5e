// What Slurm's programs print, with words of users in it, and what a job's environment says, for the controller hook.
//
// The first byte says how the rest is read.
#include "epilog/controller/slurm_tools.h"

#include "base/fields.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>

using namespace varde;
using namespace varde::controller;

namespace {

void require(bool holds) {
    if (!holds) std::abort();
}

std::map<std::string, std::string, std::less<>> table;
const char* look_up(const char* name) {
    const auto found = table.find(name);
    return found == table.end() ? nullptr : found->second.c_str();
}

void job(std::string_view text) {
    const auto read = parse_job(text);
    if (!read) return require(read.error().context.find('\n') == std::string::npos);
    require(is_node_list(read->excluded));
    require((fate_of(*read, 1000) == fate::pending) == (read->state == "PENDING"));
}

void nodes(std::string_view text) {
    for (const node_facts& each : parse_nodes(text)) {
        require(!each.name.empty() && is_node_list(each.name));
        require(!(is_down(each) && each.state.empty()) && !(is_changing_power(each) && each.state.empty()));
    }
}

void comment(std::string_view text) {
    const std::vector<std::string> known{"node1", "node2", "a,b", ""};
    const auto named = named_bad(text, known).names;
    require(named.size() <= known.size());
    for (const std::string& each : named) require(std::find(known.begin(), known.end(), each) != known.end());
}

// "NAME=value", each ended by a null.
void variables(std::string_view text) {
    table.clear();
    while (!text.empty()) {
        std::string_view entry = take_until(text, '\0');
        const std::string_view name = take_until(entry, '=');
        table.insert_or_assign(std::string(name), std::string(entry));
    }
    const auto name = read_job_name(look_up);
    if (name) require(name->find_first_not_of("0123456789_") == std::string::npos && !name->empty());
    const auto asked = options_from_environment("SPANK_VARDE_", look_up);
    if (!asked) require(asked.error().context.find('\n') == std::string::npos);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
    switch (data[0]) {
    case 'j': job(text); break;
    case 'n': nodes(text); break;
    case 'c': comment(text); break;
    case 'p': require(parse_slurmd_port(text) != 0); break;
    case 'e': variables(text); break;
    case 'l': require(!is_node_list(text) || text.find_first_of(" \n'\"$=|;") == std::string_view::npos); break;
    default: break;
    }
    return 0;
}
