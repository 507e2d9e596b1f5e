// Looks at a description: addresses, names, distances.  No hwloc: whoever has only a plan need not link with it.
#include "topo/machine.h"

#include "base/units.h"

#include <algorithm>

namespace varde::topo {

namespace {

// Exactly `digits` of them, in lower case; none where one is no digit.
std::optional<std::string> hex_digits(std::string_view text, size_t digits) {
    if (text.size() != digits) return std::nullopt;
    std::string lower;
    for (const char c : text) {
        const char small = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
        if ((small < '0' || small > '9') && (small < 'a' || small > 'f')) return std::nullopt;
        lower += small;
    }
    return lower;
}

// "nvidia" and a number, as name_device_files() has given it.
std::optional<size_t> file_number(const device& gpu) {
    constexpr std::string_view prefix = "nvidia";
    for (const std::string& each : gpu.names) {
        if (!each.starts_with(prefix)) continue;
        if (const auto number = parse_number(std::string_view(each).substr(prefix.size()))) return *number;
    }
    return std::nullopt;
}

bool has_name(const device& what, std::string_view name) {
    return std::find(what.names.begin(), what.names.end(), name) != what.names.end();
}

}  // namespace

std::optional<std::string> parse_pci_address(std::string_view text) {
    std::string domain = "0000";
    if (std::count(text.begin(), text.end(), ':') == 2) {
        std::string_view given = text.substr(0, text.find(':'));
        text.remove_prefix(given.size() + 1);
        // Eight digits as NVML writes them; the kernel has more than four only for virtual devices.
        if (given.size() == 8 && given.starts_with("0000")) given.remove_prefix(4);
        const auto digits = hex_digits(given, 4);
        if (!digits) return std::nullopt;
        domain = *digits;
    }
    if (text.size() != 7 || text[2] != ':' || text[5] != '.') return std::nullopt;
    const auto bus = hex_digits(text.substr(0, 2), 2);
    const auto slot = hex_digits(text.substr(3, 2), 2);
    if (!bus || !slot || *slot > "1f" || text[6] < '0' || text[6] > '7') return std::nullopt;
    return domain + ":" + *bus + ":" + *slot + "." + text[6];
}

std::vector<const device*> gpus_of(const machine& from) {
    std::vector<const device*> found;
    for (const device& each : from.devices)
        if (each.kind == device_kind::gpu) found.push_back(&each);
    return found;
}

size_t gpu_number(const machine& in, const device& gpu) {
    const auto gpus = gpus_of(in);
    // All or none: a mixture would give a number twice.
    const auto has_file = [](const device* each) { return file_number(*each).has_value(); };
    if (std::all_of(gpus.begin(), gpus.end(), has_file)) return file_number(gpu).value_or(0);
    return static_cast<size_t>(std::find(gpus.begin(), gpus.end(), &gpu) - gpus.begin());
}

const device* find_gpu(const machine& in, std::string_view text) {
    const auto gpus = gpus_of(in);
    const auto number = parse_number(text);
    const auto address = parse_pci_address(text);
    const auto is_it = [&](const device* each) {
        if (number) return gpu_number(in, *each) == *number;
        return address ? each->pci == *address : has_name(*each, text);
    };
    const auto found = std::find_if(gpus.begin(), gpus.end(), is_it);
    return found == gpus.end() ? nullptr : *found;
}

const device* find_device(const machine& in, std::string_view name) {
    for (const device& each : in.devices)
        if (each.kind != device_kind::gpu && has_name(each, name)) return &each;
    return nullptr;
}

std::vector<const device*> storage_devices(const machine& in, std::string_view name) {
    if (const device* found = find_device(in, name)) return {found};
    std::vector<const device*> parts;
    for (const bundle& each : in.bundles) {
        if (each.name != name) continue;
        for (const std::string& part : each.parts)
            if (const device* found = find_device(in, part)) parts.push_back(found);
    }
    return parts;
}

bool is_device_name(std::string_view text) {
    const auto is_odd = [](char c) { return c <= ' ' || c > '~'; };
    return !text.empty() && text.size() <= device_name_bytes_max && std::none_of(text.begin(), text.end(), is_odd);
}

const numa_node* find_node(const machine& in, uint32_t index) {
    for (const numa_node& each : in.nodes)
        if (each.index == index) return &each;
    return nullptr;
}

size_t shared_buses(const device& one, const device& other) {
    const auto end = std::mismatch(one.buses.begin(), one.buses.end(), other.buses.begin(), other.buses.end()).first;
    return static_cast<size_t>(end - one.buses.begin());
}

}  // namespace varde::topo
