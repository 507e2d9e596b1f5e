// history.jsonl: encoding, decoding, appending, reading.
#include "store/history.h"

#include "base/clock.h"
#include "base/limits.h"
#include "store/files.h"
#include "store/store.h"

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace varde::store {

namespace {

using json = nlohmann::ordered_json;

constexpr const char* file_name = "history.jsonl";
constexpr size_t text_bytes_max = 2048;  // of one text that is written
constexpr size_t name_bytes_max = 64;
constexpr uint64_t earliest_wall_ns = 946'684'800 * ns_per_s;  // 2000: a clock that was never set

// Whether the file ends in the middle of a line: its writer died, and a new line must not be glued to the torn one.
bool ends_torn(int fd) noexcept {
    struct stat info {};
    char last = '\n';
    return ::fstat(fd, &info) == 0 && info.st_size > 0 && ::pread(fd, &last, 1, info.st_size - 1) == 1 && last != '\n';
}

failure bad(const char* why) { return fail(code::damaged, std::string("this line is no event: ") + why); }

bool take_number(const json& line, const char* key, uint64_t& to) {
    const auto found = line.find(key);
    if (found == line.end() || !found->is_number_unsigned()) return false;
    to = found->get<uint64_t>();
    return true;
}

result<history_event> read_members(const json& line, uint64_t latest_wall_ns) {
    if (!line.is_object()) return bad("it is no object of JSON");
    const auto name = line.find("event");
    if (name == line.end() || !name->is_string()) return bad("it has no name");
    history_event what;
    what.name = name->get<std::string>();
    if (what.name.empty() || what.name.size() > name_bytes_max) return bad("its name is empty or too long");
    if (!take_number(line, "wall_ns", what.wall_ns) || what.wall_ns < earliest_wall_ns ||
        what.wall_ns > latest_wall_ns || what.wall_ns > INT64_MAX)
        return bad("its time is missing or impossible");
    if (!take_number(line, "incarnation", what.incarnation)) return bad("it has no incarnation");
    for (const auto& [key, value] : line.items()) {
        if (key == "event" || key == "wall_ns" || key == "incarnation") continue;
        if (value.is_string()) {
            if (key == "host") what.host = value.get<std::string>();
            else what.texts.emplace_back(key, value.get<std::string>());
        } else if (value.is_number_unsigned()) {
            const auto number = value.get<uint64_t>();
            if (key == "job") what.job = number;
            else if (key == "restart") what.restart = number;
            else what.numbers.emplace_back(key, number);
        }
        // Anything else is a later version's.
    }
    return what;
}

std::string dump(const json& line) { return line.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace

const std::string& history_event::text(std::string_view key) const noexcept {
    static const std::string none;
    const auto found = std::find_if(texts.begin(), texts.end(), [&](const auto& one) { return one.first == key; });
    return found == texts.end() ? none : found->second;
}

uint64_t history_event::number(std::string_view key) const noexcept {
    const auto found = std::find_if(numbers.begin(), numbers.end(), [&](const auto& one) { return one.first == key; });
    return found == numbers.end() ? 0 : found->second;
}

std::string encode_event(const history_event& what) {
    json line;
    line["event"] = what.name;
    line["wall_ns"] = what.wall_ns;
    line["incarnation"] = what.incarnation;
    line["job"] = what.job;
    line["restart"] = what.restart;
    line["host"] = what.host.substr(0, text_bytes_max);
    for (const auto& [key, value] : what.numbers) line[key] = value;
    // A byte becomes six at most (\u001f), so that a few long texts may be too much; a cut character becomes U+FFFD.
    for (size_t most = text_bytes_max;; most /= 2) {
        for (const auto& [key, value] : what.texts) line[key] = value.substr(0, most);
        std::string text = dump(line);
        if (text.size() <= event_bytes_max || most == 0) return text;
    }
}

result<history_event> decode_event(std::string_view line, uint64_t latest_wall_ns) {
    if (line.size() > event_bytes_max) return bad("it is too long");
    try {
        const json document = json::parse(line, nullptr, /*allow_exceptions=*/false);
        return document.is_discarded() ? bad("it is not JSON") : read_members(document, latest_wall_ns);
    } catch (const std::exception& wrong) { return bad(wrong.what()); }
}

history decode_history(std::string_view text, uint64_t latest_wall_ns) {
    history all;
    while (!text.empty()) {
        const size_t end = text.find('\n');
        const std::string_view line = text.substr(0, end);
        all.torn = end == std::string_view::npos;
        text.remove_prefix(all.torn ? text.size() : end + 1);
        auto event = decode_event(line, latest_wall_ns);
        if (event) all.events.push_back(std::move(*event));
        else if (!all.torn && !line.empty()) all.unreadable_count++;
    }
    return all;
}

result<void> run_directory::append_history(const std::string& line) {
    const std::string path = path_ + "/" + file_name;
    if (line.empty() || line.find('\n') != std::string::npos)
        return fail(code::invalid, "couldn't append to '" + path + "': an event is exactly one line");
    const unique_fd fd(
        files::open_at(fd_.get(), file_name, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0600));
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

result<history> run_directory::read_history() const {
    const std::string path = path_ + "/" + file_name;
    const unique_fd fd(files::open_at(fd_.get(), file_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
    if (!fd && errno == ENOENT) return fail(code::not_found, "'" + path_ + "' has no history yet");
    struct stat info {};
    if (!fd || ::fstat(fd.get(), &info) != 0) return os_error(errno, "couldn't open '" + path + "'");
    if (!S_ISREG(info.st_mode)) return fail(code::damaged, "couldn't read '" + path + "': it is no file");
    const auto size_bytes = static_cast<uint64_t>(info.st_size);
    const uint64_t skipped = size_bytes > history_bytes_max ? size_bytes - history_bytes_max : 0;
    std::string text(size_bytes - skipped, '\0');
    auto done = files::read_exactly(fd.get(), reinterpret_cast<std::byte*>(text.data()), text.size(), skipped, path);
    if (!done) return done.error();
    // The first line is torn where the file was cut.
    if (skipped > 0) text.erase(0, std::min(text.find('\n'), text.size() - 1) + 1);
    auto all = decode_history(text, wall_ns() + event_ahead_ns);
    all.skipped_bytes = size_bytes - text.size();
    return all;
}

}  // namespace varde::store
