// Loops around pread and write.
#include "topo/text_file.h"

#include "base/units.h"

#include <cerrno>
#include <sys/stat.h>
#include <unistd.h>

namespace varde::topo {

result<std::string> read_all(int file, size_t bytes_max, const std::string& what) {
    struct stat found {};
    if (::fstat(file, &found) != 0) return os_error(errno, what);
    if (!S_ISREG(found.st_mode)) return fail(code::invalid, what + ": it is no file");
    if (static_cast<uint64_t>(found.st_size) > bytes_max)
        return fail(code::damaged, what + ": it is larger than " + format_bytes(bytes_max));
    std::string text(static_cast<size_t>(found.st_size), '\0');
    size_t done = 0;
    while (done < text.size()) {
        const ssize_t more = ::pread(file, text.data() + done, text.size() - done, static_cast<off_t>(done));
        if (more < 0 && errno == EINTR) continue;
        if (more < 0) return os_error(errno, what);
        if (more == 0) break;
        done += static_cast<size_t>(more);
    }
    text.resize(done);
    return text;
}

result<void> write_all(int file, std::string_view text) {
    while (!text.empty()) {
        const ssize_t done = ::write(file, text.data(), text.size());
        if (done < 0 && errno != EINTR) return os_error(errno, "couldn't write");
        text.remove_prefix(done < 0 ? 0 : static_cast<size_t>(done));
    }
    return {};
}

}  // namespace varde::topo
