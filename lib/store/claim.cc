// Incarnation numbers: who may write the run from now on.
//
// A claim is a file under a number that only one process can create, and it is never seen half-written: it gets its
// name when its content is on storage.  Losing a race means taking the next number, so two that start at once get two
// numbers and the later one fences the other.
#include "store/files.h"
#include "store/names.h"

#include <algorithm>
#include <cerrno>
#include <unistd.h>

namespace varde::store {

namespace {

constexpr uint64_t claims_kept = 16;          // for people: the last restarts
constexpr unsigned claims_attempts_max = 64;  // as many starts of one run at the same moment; more is a loop

result<std::vector<uint64_t>> read_claims(int directory) {
    result<std::vector<std::string>> names = files::read_names(directory, "roster");
    if (!names) return std::move(names).error();
    std::vector<uint64_t> claims;
    for (const std::string& name : *names) {
        if (const std::optional<uint64_t> number = parse_claim_name(name)) claims.push_back(*number);
    }
    std::sort(claims.begin(), claims.end());
    return claims;
}

result<bool> has_claim(int directory, uint64_t number) {
    struct stat info {};
    if (::fstatat(directory, claim_name(number).c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) return true;
    if (errno == ENOENT) return false;
    return os_error(errno, "couldn't look for 'roster/" + claim_name(number) + "'");
}

// The file under a temporary name, synced.
result<std::string> write_claim(int directory, const std::string& claim) {
    std::string name = files::unique_name(files::temporary_prefix);
    const unique_fd fd(files::open_at(directory, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
    if (!fd) return os_error(errno, "couldn't create a claim of the run in 'roster'");
    result<void> written = files::write_all(fd.get(), files::bytes_of(claim), "roster/" + name);
    if (written) written = files::sync(fd.get(), "roster/" + name);
    if (written) return name;
    discard(::unlinkat(directory, name.c_str(), 0), "the first failure is the one to report");
    return std::move(written).error();
}

void remove_old(int directory, const std::vector<uint64_t>& claims, uint64_t newest) {
    for (const uint64_t number : claims) {
        if (number + claims_kept <= newest)
            discard(::unlinkat(directory, claim_name(number).c_str(), 0),
                    "an old claim does no harm; the next start tries again");
    }
}

}  // namespace

namespace {

// One claim: a file of its own, under the first number after `newest` that is free.
result<uint64_t> take_number(int directory, uint64_t newest, const std::string& claim) {
    const result<std::string> temporary = write_claim(directory, claim);
    if (!temporary) return temporary.error();
    uint64_t number = newest;
    int refused = EEXIST;
    for (unsigned attempt = 0; refused == EEXIST && attempt < claims_attempts_max; ++attempt)
        refused = files::rename_new(directory, temporary->c_str(), claim_name(++number).c_str());
    if (refused == 0) return number;
    discard(::unlinkat(directory, temporary->c_str(), 0), "the first failure is the one to report");
    return os_error(refused, "couldn't claim the run as 'roster/" + claim_name(number) + "'");
}

}  // namespace

result<uint64_t> roster::claim_incarnation(const std::string& claim) {
    result<std::vector<uint64_t>> claims = read_claims(directory_.get());
    for (unsigned attempt = 0; claims && attempt < claims_attempts_max; ++attempt) {
        const result<uint64_t> number = take_number(directory_.get(), claims->empty() ? 0 : claims->back(), claim);
        if (!number) return number;
        claims = read_claims(directory_.get());
        if (!claims) break;
        // While we were slow, so many may have come that ours is a number which was had before, and was removed as old:
        // then it is nobody's, and goes the same way.
        if (!claims->empty() && claims->back() >= *number + claims_kept) continue;
        if (const result<void> synced = files::sync(directory_.get(), "roster"); !synced) return synced.error();
        remove_old(directory_.get(), *claims, *number);
        return number;
    }
    return claims ? fail(code::busy, "couldn't claim the run: others claim it all the time") : claims.error();
}

result<uint64_t> roster::newest_incarnation(uint64_t known) {
    // The usual case, once a second on every node, is a look-up of a name that is not there, and of one that is: an old
    // claim is removed only when there are newer ones.  A network file system may answer from its cache for some
    // seconds; the slots, which are read around the cache, carry the number as well.
    if (known > 0) {
        const result<bool> newer = has_claim(directory_.get(), known + 1);
        if (!newer) return newer.error();
        const result<bool> own = *newer ? newer : has_claim(directory_.get(), known);
        if (!own) return own.error();
        if (!*newer && *own) return known;
    }
    const result<std::vector<uint64_t>> claims = read_claims(directory_.get());
    if (!claims) return claims.error();
    return std::max(known, claims->empty() ? 0 : claims->back());
}

}  // namespace varde::store
