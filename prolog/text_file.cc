// read(2) until the end; write(2) once, because the kernel takes a setting as one write.
#include "prolog/text_file.h"

#include "base/handle.h"
#include "base/units.h"

#include <array>
#include <cerrno>
#include <fcntl.h>

namespace varde::node {

namespace {

constexpr size_t text_bytes_max = 4 << 20;

}  // namespace

result<std::string> read_text(const std::string& path) {
    const unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return os_error(errno, "couldn't open '" + path + "'");
    std::string text;
    std::array<char, 4096> buffer{};
    for (;;) {
        const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) continue;
        // A process that ends while it is read gives ESRCH.
        if (got < 0) return os_error(errno == ESRCH ? ENOENT : errno, "couldn't read '" + path + "'");
        if (got == 0) return text;
        text.append(buffer.data(), static_cast<size_t>(got));
        if (text.size() > text_bytes_max)
            return fail(code::invalid,
                        "couldn't read '" + path + "': it is longer than " + format_bytes(text_bytes_max));
    }
}

result<void> write_text(const std::string& path, const std::string& text) {
    const unique_fd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
    const ssize_t written = file ? ::write(file.get(), text.data(), text.size()) : -1;
    if (written < 0) return os_error(errno, "couldn't write '" + path + "'");
    if (static_cast<size_t>(written) != text.size())
        return fail(code::io, "couldn't write '" + path + "': it took " + std::to_string(written) + " of " +
                                  std::to_string(text.size()) + " bytes");
    return {};
}

}  // namespace varde::node
