// The pools' files below /sys/devices/system/node, and the record of what was added.
#include "prolog/huge_pages.h"

#include "base/clock.h"
#include "base/fields.h"
#include "base/handle.h"
#include "base/limits.h"
#include "base/units.h"
#include "config/trusted_file.h"
#include "prolog/own_directory.h"
#include "prolog/process_table.h"
#include "prolog/text_file.h"

#include <algorithm>
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <map>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

namespace varde::node {

namespace {

constexpr uint64_t step_bytes = 64ULL << 20;  // the deadline is looked at in between
constexpr uint64_t pages_max = 1ULL << 40;
constexpr size_t record_bytes_max = 64 << 10;
constexpr int lock_ms = 500;
using claims_by_node = std::map<uint32_t, uint64_t>;
constexpr const char* lock_name = "huge_pages.lock";  // in the run directory

class pool {
public:
    pool(const std::string& root, uint32_t numa_node, uint64_t page_bytes)
        : folder_(root + "/sys/devices/system/node/node" + std::to_string(numa_node) + "/hugepages/hugepages-" +
                  std::to_string(page_bytes / 1024) + "kB") {}

    result<uint64_t> free_pages() const { return number("free_hugepages"); }
    // Pages that stay in the pool: those that the kernel makes on demand, and takes away again, are not among them.
    result<uint64_t> own_pages() const {
        const auto all = number("nr_hugepages");
        const auto surplus = number("surplus_hugepages");
        if (!all || !surplus) return all ? surplus.error() : all.error();
        return *all - std::min(*surplus, *all);
    }
    result<void> set(uint64_t pages) const {
        auto done = write(pages);
        const auto now = done ? own_pages() : result<uint64_t>(pages);
        // Linux before 6.7 adds the surplus of other NUMA nodes to what one of them is asked for.
        if (now && *now > pages && *now - pages <= pages) return write(pages - (*now - pages));
        return done;
    }

private:
    result<void> write(uint64_t pages) const {
        return write_text(folder_ + "/nr_hugepages", std::to_string(pages) + "\n");
    }
    result<uint64_t> number(const char* name) const {
        const auto text = read_text(folder_ + "/" + name);
        if (!text) return text.error();
        return parse_number(std::string_view(*text).substr(0, text->find('\n')), pages_max);
    }
    std::string folder_;
};

uint64_t pages_of_all(const char* what, const std::string& root, uint64_t page_bytes) {
    const auto text =
        read_text(root + "/sys/kernel/mm/hugepages/hugepages-" + std::to_string(page_bytes / 1024) + "kB/" + what);
    if (!text) return 0;
    const auto pages = parse_number(std::string_view(*text).substr(0, text->find('\n')), pages_max);
    return pages ? *pages : 0;
}

// A holder that hangs must not hold up the node.
result<unique_fd> lock_pools(const job_directory& job) {
    const unique_fd folder(::openat(job.fd(), "..", own_directory_flags));
    if (!folder) return os_error(errno, "couldn't open the directory above '" + job.path() + "'");
    return lock_own_file(folder.get(), lock_name, lock_ms, job.path() + "/../" + lock_name);
}

// What each pool lacks.  `claims`: pages of other jobs, by NUMA node.
result<taken_pages> plan_growth(uint64_t page_bytes, std::span<const page_share> shares, const claims_by_node& claims,
                                const std::string& root) {
    taken_pages plan{page_bytes, false, boot_id(), {}};
    // Mapped but not touched yet: they are still counted as free, and are somebody's.
    uint64_t promised = pages_of_all("resv_hugepages", root, page_bytes);
    for (const page_share& share : shares) {
        const pool one(root, share.numa_node, page_bytes);
        const auto free = one.free_pages();
        const auto before = one.own_pages();
        if (!free || !before) return free ? before.error() : free.error();
        const auto found = claims.find(share.numa_node);
        const uint64_t claimed = found == claims.end() ? 0 : found->second;
        const uint64_t spare = std::min(*free - std::min(promised, *free), *before - std::min(claimed, *before));
        promised -= std::min(promised, *free);
        const uint64_t needed = share.size_bytes / page_bytes + (share.size_bytes % page_bytes != 0 ? 1 : 0);
        plan.pools.push_back({share.numa_node, *before, *before + std::max(needed, spare) - spare, needed});
    }
    return plan;
}

result<void> grow(const taken_pages& by, const grown_pool& which, deadline until, const std::string& root) {
    const pool one(root, which.numa_node, by.page_bytes);
    const uint64_t step_pages = std::max<uint64_t>(1, step_bytes / by.page_bytes);
    uint64_t pages = which.before;
    while (pages < which.after) {
        const uint64_t next = std::min(pages + step_pages, which.after);
        if (auto done = one.set(next); !done) return done;
        const auto now = one.own_pages();
        if (!now) return now.error();
        if (*now >= next && (next == which.after || !until.passed())) {
            pages = next;
            continue;
        }
        const uint64_t got = std::max(*now, which.before) - which.before;
        return fail(code::no_memory, "couldn't reserve " + format_bytes((which.after - which.before) * by.page_bytes) +
                                         " of huge pages on NUMA node " + std::to_string(which.numa_node) +
                                         ": the kernel found " + format_bytes(got * by.page_bytes) +
                                         " in time; ordinary pages are used; reserve them at boot "
                                         "(hugepages= on the kernel's command line)");
    }
    return {};
}

// Takes from each pool what it has grown by, so far: for a record that is under way.
result<void> shrink(const taken_pages& by, const std::string& root) {
    result<void> outcome;
    for (const grown_pool& which : by.pools) {
        const pool one(root, which.numa_node, by.page_bytes);
        const auto now = one.own_pages();
        const uint64_t more = now ? *now - std::min(which.before, *now) : 0;
        const uint64_t less = std::min(which.after - which.before, more);
        const auto done = now ? one.set(*now - less) : result<void>(now.error());
        if (!done) outcome = done;
    }
    return outcome;
}

result<void> forget(const job_directory& job) {
    if (::unlinkat(job.fd(), huge_pages_name, 0) == 0 || errno == ENOENT) return {};
    return os_error(errno, "couldn't remove '" + job.path() + "/" + huge_pages_name + "'");
}

result<taken_pages> read_record(int directory, const std::string& shown) {
    const auto text = read_trusted_file(directory, huge_pages_name, shown + "/" + huge_pages_name, record_bytes_max);
    if (!text) return text.error();
    return decode_taken(*text);
}

// Adds what the job in `directory` has claimed.  What is under way there was begun by a program that was killed,
// because we have the lock.
result<void> add_claims(int directory, const std::string& shown, uint64_t page_bytes, const std::string& root,
                        claims_by_node& to) {
    const auto record = read_record(directory, shown);
    if (!record || record->boot != boot_id()) return {};  // none, or none that is of use
    if (!record->settled) {
        if (auto done = shrink(*record, root); !done) return done;
        if (::unlinkat(directory, huge_pages_name, 0) != 0)
            return os_error(errno, "couldn't remove '" + shown + "/" + huge_pages_name + "'");
        return {};
    }
    if (record->page_bytes != page_bytes) return {};
    for (const grown_pool& each : record->pools) to[each.numa_node] += each.claimed;
    return {};
}

result<claims_by_node> claims_of_others(const job_directory& job, uint64_t page_bytes, const std::string& root) {
    const std::string run = job.path() + "/..";
    unique_fd folder(::openat(job.fd(), "..", own_directory_flags));
    struct stat own {};
    if (!folder || ::fstat(job.fd(), &own) != 0) return os_error(errno, "couldn't open '" + run + "'");
    const unique_fd parent(::fcntl(folder.get(), F_DUPFD_CLOEXEC, 3));
    const std::unique_ptr<DIR, int (*)(DIR*)> listing(::fdopendir(folder.get()), ::closedir);
    if (!parent || !listing) return os_error(errno, "couldn't list '" + run + "'");
    folder.release();
    claims_by_node claims;
    while (const dirent* entry = ::readdir(listing.get())) {
        if (!parse_number(entry->d_name, UINT32_MAX)) continue;
        const unique_fd other(::openat(parent.get(), entry->d_name, own_directory_flags));
        struct stat about {};
        if (!other || ::fstat(other.get(), &about) != 0 || about.st_ino == own.st_ino) continue;
        auto added = add_claims(other.get(), run + "/" + entry->d_name, page_bytes, root, claims);
        if (!added) return std::move(added).error();
    }
    return claims;
}

}  // namespace

uint64_t free_huge_bytes(uint64_t page_bytes, const std::string& root) {
    return page_bytes * pages_of_all("free_hugepages", root, page_bytes);
}

std::string encode_taken(const taken_pages& from) {
    std::string text = "page_bytes " + std::to_string(from.page_bytes) + "\nboot " + from.boot + "\n";
    for (const grown_pool& each : from.pools)
        text += "node " + std::to_string(each.numa_node) + " " + std::to_string(each.before) + " " +
                std::to_string(each.after) + " " + std::to_string(each.claimed) + "\n";
    return text + (from.settled ? "settled\n" : "under way\n");
}

result<taken_pages> decode_taken(std::string_view text) {
    taken_pages found;
    auto bad = fail(code::damaged, "the record of huge pages is damaged");
    bool ended = false;
    for (size_t line = 0; !text.empty(); line++) {
        const auto words = split(take_until(text, '\n'), ' ');
        const auto number = [&](size_t at, uint64_t most) { return parse_number(words[at], most); };
        if (ended || words.empty()) return bad;
        if (line == 0) {
            const auto bytes = words.size() == 2 && words[0] == "page_bytes" ? number(1, 1ULL << 40) : bad;
            if (!bytes || *bytes < limits::page_bytes) return bad;
            found.page_bytes = *bytes;
        } else if (line == 1) {
            if (words.size() != 2 || words[0] != "boot") return bad;
            found.boot = words[1];
        } else if (words.size() == 5 && words[0] == "node") {
            const auto node = number(1, limits::numa_nodes_max - 1);
            const auto before = number(2, pages_max);
            const auto after = number(3, pages_max);
            const auto claimed = number(4, pages_max);
            if (!node || !before || !after || *after < *before || !claimed) return bad;
            found.pools.push_back({static_cast<uint32_t>(*node), *before, *after, *claimed});
        } else {
            found.settled = words.size() == 1 && words[0] == "settled";
            ended = found.settled || (words.size() == 2 && words[0] == "under" && words[1] == "way");
            if (!ended) return bad;
        }
    }
    if (!ended) return bad;
    return found;
}

result<void> take_huge_pages(const job_directory& job, uint64_t page_bytes, std::span<const page_share> shares,
                             int timeout_ms, const std::string& root) {
    const auto until = deadline::in_ms(static_cast<uint64_t>(timeout_ms));
    const auto lock = lock_pools(job);
    if (!lock) return lock.error();
    const auto claims = claims_of_others(job, page_bytes, root);
    if (!claims) return claims.error();
    auto plan = plan_growth(page_bytes, shares, *claims, root);
    if (!plan) return plan.error();
    if (auto written = job.write_file(huge_pages_name, encode_taken(*plan)); !written) return written;
    result<void> grown;
    for (size_t i = 0; i < plan->pools.size() && grown; i++) grown = grow(*plan, plan->pools[i], until, root);
    if (grown) {
        plan->settled = true;
        grown = job.write_file(huge_pages_name, encode_taken(*plan));
        if (grown) return {};
        plan->settled = false;  // as the file has it
    }
    if (const auto undone = shrink(*plan, root); !undone) return undone;
    discard(forget(job), "what is left of the record says that there is nothing to take away");
    return grown;
}

result<void> give_back_huge_pages(const job_directory& job, const std::string& root) {
    if (::faccessat(job.fd(), huge_pages_name, F_OK, 0) != 0 && errno == ENOENT) return {};
    const auto lock = lock_pools(job);
    if (!lock) return lock.error();
    auto taken = read_record(job.fd(), job.path());
    if (!taken) return taken.error().what == code::not_found ? result<void>() : taken.error();
    // The kernel that had them is gone.  What this one has, the administrator has reserved.
    if (taken->boot != boot_id()) return forget(job);
    if (taken->settled) {
        // From here on it is known what is to remain, so that doing it twice takes nothing away twice.
        taken_pages undoing = *taken;
        undoing.settled = false;
        for (grown_pool& each : undoing.pools) {
            const auto now = pool(root, each.numa_node, taken->page_bytes).own_pages();
            if (!now) return now.error();
            const uint64_t added = each.after - each.before;
            each = {each.numa_node, *now - std::min(added, *now), *now, each.claimed};
        }
        if (auto written = job.write_file(huge_pages_name, encode_taken(undoing)); !written) return written;
        *taken = std::move(undoing);
    }
    if (auto done = shrink(*taken, root); !done) return done;
    return forget(job);
}

}  // namespace varde::node
