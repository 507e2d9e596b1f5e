// Texts of paths: see paths.h.
#include "base/paths.h"

#include "base/limits.h"

namespace varde {

bool is_plain_path(std::string_view path) noexcept {
    if (path.size() < 2 || path.size() >= limits::path_bytes_max || path.front() != '/') return false;
    if (path.find('\0') != std::string_view::npos) return false;
    while (!path.empty()) {
        path.remove_prefix(1);
        const std::string_view part = path.substr(0, path.find('/'));
        if (part.empty() || part == "." || part == "..") return false;
        path.remove_prefix(part.size());
    }
    return true;
}

}  // namespace varde
