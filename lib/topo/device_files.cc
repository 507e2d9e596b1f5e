// /proc/driver/nvidia/gpus/ADDRESS/information has a line "Device Minor: 3", with tabs before the number.
#include "topo/device_files.h"

#include "base/fields.h"
#include "base/handle.h"
#include "base/units.h"

#include <array>
#include <fcntl.h>

namespace varde::topo {

namespace {

constexpr std::string_view key = "Device Minor:";
constexpr uint64_t minor_max = (1U << 20) - 1;

std::optional<uint64_t> minor_of(const std::string& path) {
    const unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, 4096> content{};
    const ssize_t length = file ? ::read(file.get(), content.data(), content.size()) : -1;
    if (length <= 0) return std::nullopt;
    std::string_view text(content.data(), static_cast<size_t>(length));
    while (!text.empty()) {
        std::string_view line = take_until(text, '\n');
        if (!line.starts_with(key)) continue;
        line.remove_prefix(key.size());
        while (line.starts_with(' ') || line.starts_with('\t')) line.remove_prefix(1);
        const auto number = parse_number(line, minor_max);
        return number ? std::optional(*number) : std::nullopt;
    }
    return std::nullopt;
}

}  // namespace

void name_device_files(machine& to, const std::string& root) {
    for (device& each : to.devices) {
        if (each.kind != device_kind::gpu) continue;
        const auto minor = minor_of(root + "/proc/driver/nvidia/gpus/" + each.pci + "/information");
        if (minor) each.names.push_back("nvidia" + std::to_string(*minor));
    }
}

}  // namespace varde::topo
