// history.jsonl: one line per event, for people and for `varde report`.
#include "store/files.h"
#include "store/store.h"

#include <cerrno>
#include <unistd.h>

namespace varde::store {

namespace {

// Whether the file ends in the middle of a line: its writer died, and a new line must not be glued to the torn one.
bool ends_torn(int fd) noexcept {
    struct stat info {};
    char last = '\n';
    return ::fstat(fd, &info) == 0 && info.st_size > 0 && ::pread(fd, &last, 1, info.st_size - 1) == 1 && last != '\n';
}

}  // namespace

result<void> run_directory::append_history(const std::string& line) {
    const std::string path = path_ + "/history.jsonl";
    if (line.empty() || line.find('\n') != std::string::npos)
        return fail(code::invalid, "couldn't append to '" + path + "': an event is exactly one line");
    const unique_fd fd(
        files::open_at(fd_.get(), "history.jsonl", O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0600));
    if (!fd) return os_error(errno, "couldn't open '" + path + "'");
    const std::string text = (ends_torn(fd.get()) ? "\n" : "") + line + "\n";
    const ssize_t written = ::write(fd.get(), text.data(), text.size());
    if (written < 0) return os_error(errno, "couldn't append to '" + path + "'");
    // The rest of a short write would be a second write, between which another leader's line may come: the next call
    // ends the torn line.
    if (static_cast<size_t>(written) != text.size())
        return os_error(ENOSPC, "couldn't append the whole line to '" + path + "'");
    return files::sync(fd.get(), path);
}

}  // namespace varde::store
