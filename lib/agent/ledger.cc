// Append, replay and compaction of the ledger.
//
// File: 8-byte epoch (0: not in use), then records: kind u32, local rank u32, value bytes u64, checksum u64 (XXH3 of
// the head and the value), value. The file with the greater epoch is the log.  Compaction writes the other file from
// its ninth byte on and its epoch last.
#include "agent/ledger.h"

#include "pack/layout.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <sys/stat.h>

namespace varde::agent {

namespace {

struct head {
    uint32_t kind;
    uint32_t local_rank;
    uint64_t value_bytes;
    uint64_t checksum;
};
static_assert(sizeof(head) == 24);

constexpr uint64_t records_start = 8;
constexpr uint64_t compaction_slack_bytes = 4ULL << 20;

uint64_t checksum_of(const head& about, std::string_view value) {
    const uint64_t sums[] = {pack::checksum(std::as_bytes(std::span(&about, 1)).first(offsetof(head, checksum))),
                             pack::checksum(std::as_bytes(std::span(value)))};
    return pack::checksum(std::as_bytes(std::span(sums)));
}

std::string record_bytes(const ledger::key& key, const std::string& value) {
    head about{static_cast<uint32_t>(key.first), key.second, value.size(), 0};
    about.checksum = checksum_of(about, value);
    return std::string(reinterpret_cast<const char*>(&about), sizeof about) + value;
}

result<void> write_at(int fd, std::string_view bytes, uint64_t offset) {
    while (!bytes.empty()) {
        const ssize_t done = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return os_error(errno, "couldn't write the agent's ledger");
        bytes.remove_prefix(static_cast<size_t>(done));
        offset += static_cast<uint64_t>(done);
    }
    return {};
}

result<std::string> read_all(int fd) {
    struct stat about {};
    if (::fstat(fd, &about) != 0) return os_error(errno, "couldn't stat the agent's ledger");
    std::string bytes(static_cast<size_t>(about.st_size), '\0');
    size_t done = 0;
    while (done < bytes.size()) {
        const ssize_t got = ::pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return os_error(errno, "couldn't read the agent's ledger");
        done += static_cast<size_t>(got);
    }
    return bytes;
}

uint64_t epoch_of(const std::string& bytes) {
    uint64_t epoch = 0;
    if (bytes.size() >= sizeof epoch) std::memcpy(&epoch, bytes.data(), sizeof epoch);
    return epoch;
}

// Replays records up to the first one that is not whole; returns where that is.
uint64_t replay(const std::string& bytes, std::map<ledger::key, std::string>& records) {
    uint64_t at = records_start;
    while (bytes.size() >= at + sizeof(head)) {
        head about{};
        std::memcpy(&about, bytes.data() + at, sizeof about);
        const uint64_t rest = bytes.size() - at - sizeof about;
        if (about.value_bytes > rest) break;
        const std::string_view value(bytes.data() + at + sizeof about, about.value_bytes);
        if (about.checksum != checksum_of(about, value)) break;
        records[{static_cast<record>(about.kind), about.local_rank}] = std::string(value);
        at += sizeof about + about.value_bytes;
    }
    return at;
}

}  // namespace

result<std::array<unique_fd, 2>> ledger::make() {
    std::array<unique_fd, 2> files;
    for (auto& file : files) {
        file.reset(::memfd_create("varde-ledger", MFD_CLOEXEC));
        if (!file) return os_error(errno, "couldn't make the agent's ledger");
    }
    return files;
}

result<ledger> ledger::open(std::array<unique_fd, 2> files) {
    ledger made;
    made.files_ = std::move(files);
    std::array<std::string, 2> bytes;
    for (size_t i = 0; i < 2; i++) {
        auto content = read_all(made.files_[i].get());
        if (!content) return content.error();
        bytes[i] = std::move(*content);
    }
    made.active_ = epoch_of(bytes[1]) > epoch_of(bytes[0]) ? 1 : 0;
    made.epoch_ = epoch_of(bytes[made.active_]);
    if (made.epoch_ == 0) {  // the first worker
        if (auto done = made.compact(); !done) return done.error();
        return made;
    }
    made.end_ = replay(bytes[made.active_], made.records_);
    return made;
}

result<void> ledger::append(const std::string& bytes) {
    auto done = write_at(files_[active_].get(), bytes, end_);
    if (!done) return done;
    end_ += bytes.size();
    return {};
}

result<void> ledger::put(record kind, uint32_t local_rank, const std::string& value) {
    records_[{kind, local_rank}] = value;
    auto done = append(record_bytes({kind, local_rank}, value));
    if (!done) return done;
    uint64_t live_bytes = 0;
    for (const auto& [which, text] : records_) live_bytes += sizeof(head) + text.size();
    if (end_ > 2 * live_bytes + compaction_slack_bytes) return compact();
    return {};
}

result<void> ledger::clear() {
    records_.clear();
    return compact();
}

result<void> ledger::compact() {
    const size_t other = 1 - active_;
    const int fd = files_[other].get();
    if (::ftruncate(fd, 0) != 0) return os_error(errno, "couldn't empty the agent's ledger");
    std::string bytes;
    for (const auto& [which, value] : records_) bytes += record_bytes(which, value);
    if (auto done = write_at(fd, bytes, records_start); !done) return done;
    const uint64_t epoch = epoch_ + 1;
    if (auto done = write_at(fd, {reinterpret_cast<const char*>(&epoch), sizeof epoch}, 0); !done) return done;
    active_ = other;
    epoch_ = epoch;
    end_ = records_start + bytes.size();
    return {};
}

}  // namespace varde::agent
