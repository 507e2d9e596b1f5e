// memfds, seals, mappings, locking.
#include "agent/memory.h"

#include "arena/control.h"
#include "base/checked.h"
#include "base/limits.h"
#include "base/units.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <system_error>
#include <thread>
#include <vector>

namespace varde::agent {

namespace {

constexpr size_t piece_bytes = 256ULL << 20;
// While a piece is faulted in, no other thread of the process can map or fault in anything; a SIGTERM waits, too.
constexpr size_t reserve_bytes = 16ULL << 20;
constexpr size_t reserve_threads = 4;  // zeroing pages: a few threads fill the memory bandwidth of a socket

result<unique_fd> make_memfd(const char* name, uint64_t size_bytes, unsigned flags = 0) {
    unique_fd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
    if (!fd) return os_error(errno, std::string("couldn't make the memfd '") + name + "'");
    if (::ftruncate(fd.get(), static_cast<off_t>(size_bytes)) != 0) {
        return os_error(errno, std::string("couldn't size the memfd '") + name + "' to " + format_bytes(size_bytes));
    }
    if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        return os_error(errno, std::string("couldn't seal the memfd '") + name + "'");
    }
    return fd;
}

result<mapping> map_all(int fd, const char* what) {
    struct stat about {};
    if (::fstat(fd, &about) != 0) return os_error(errno, std::string("couldn't stat the ") + what);
    const auto size_bytes = static_cast<size_t>(about.st_size);
    void* address = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (address == MAP_FAILED) return os_error(errno, std::string("couldn't map the ") + what);
    discard(::madvise(address, size_bytes, MADV_HUGEPAGE), "fewer and larger transfers, where the host allows it");
    return mapping(address, size_bytes);
}

// Adds nothing to a word of each page, atomically: a rank may be writing there already.
void touch(std::byte* pages, size_t size_bytes) {
    for (size_t at = 0; at < size_bytes; at += limits::page_bytes)
        reinterpret_cast<std::atomic<uint32_t>*>(pages + at)->fetch_add(0, std::memory_order_relaxed);
}

// The memfd of huge pages.  The mapping is what takes them out of the kernel's pool; it is tried here, because what is
// promised to it stays promised to the file.
result<unique_fd> make_huge(const arena_wish& wish) {
    const uint64_t page_bytes = wish.huge_page_bytes;
    const auto above = checked_add(wish.size_bytes, page_bytes - 1);
    const uint64_t size_bytes = above ? *above / page_bytes * page_bytes : 0;
    const std::string what = format_bytes(wish.size_bytes) + " on huge pages of " + format_bytes(page_bytes);
    if (size_bytes - wish.size_bytes > wish.size_bytes / limits::rounding_share)
        return fail(code::invalid, what + " would take " + format_bytes(size_bytes) + ": ordinary pages are used");
    const auto size_log = static_cast<unsigned>(std::countr_zero(page_bytes));
    auto fd = make_memfd("varde-arena", size_bytes, MFD_HUGETLB | size_log << MFD_HUGE_SHIFT);
    const auto tried = fd ? map_all(fd->get(), "arena") : result<mapping>(fd.error());
    if (tried) return fd;
    failure why = tried.error();
    why.context = "couldn't have " + what + ": ordinary pages are used (" + why.context + ")";
    return why;
}

// A place is a wish: the arena works anywhere.
void place(const arena_wish& wish, made_memory& made) {
    const mapping& arena = made.memory.arena;
    const uint64_t page_bytes = made.memory.huge ? wish.huge_page_bytes : limits::page_bytes;
    made.parts = cut_arena(wish.shares, arena.size_bytes(), page_bytes);
    uint64_t offset = 0;
    for (const arena_part& part : made.parts) {
        const auto placed = place_part(arena.data() + offset, part);
        if (!placed) made.refusal += (made.refusal.empty() ? "" : "; ") + placed.error().context;
        offset += part.size_bytes;
    }
}

failure not_locked(int os_errno, uint64_t needed) {
    rlimit limit{};
    ::getrlimit(RLIMIT_MEMLOCK, &limit);
    return failure{code::no_memory, os_errno,
                   "couldn't lock the arena: needs " + format_bytes(needed) + ", the limit is " +
                       format_bytes(limit.rlim_cur) + "; it is used unlocked, raise memlock to pin it"};
}

}  // namespace

result<node_memory> map_memory(unique_fd control_fd, unique_fd arena_fd) {
    auto control = map_all(control_fd.get(), "control pages");
    if (!control) return control.error();
    auto arena = map_all(arena_fd.get(), "arena");
    if (!arena) return arena.error();
    if (control->size_bytes() != arena::control_bytes) return fail(code::internal, "control pages have a wrong size");
    return node_memory{std::move(control_fd), std::move(arena_fd), std::move(*control), std::move(*arena)};
}

result<made_memory> make_memory(const arena_wish& wish) {
    const uint64_t plain_bytes = wish.size_bytes / limits::page_bytes * limits::page_bytes;
    if (plain_bytes == 0)
        return fail(code::no_memory,
                    "an arena of " + format_bytes(wish.size_bytes) + " is no arena; raise --ckpt-memory");
    auto control_fd = make_memfd("varde-control", arena::control_bytes);
    if (!control_fd) return control_fd.error();
    made_memory made;
    bool huge = false;
    auto arena_fd = result<unique_fd>(unique_fd());
    if (wish.huge_page_bytes != 0) {
        arena_fd = make_huge(wish);
        huge = arena_fd.has_value();
        if (!huge) made.refusal = arena_fd.error().context;
    }
    if (!huge) arena_fd = make_memfd("varde-arena", plain_bytes);
    if (!arena_fd) return arena_fd.error();
    auto memory = map_memory(std::move(*control_fd), std::move(*arena_fd));
    if (!memory) return memory.error();
    made.memory = std::move(*memory);
    made.memory.huge = huge;
    auto* node = arena::node_of(made.memory.control.data());
    node->magic = arena::control_magic;
    node->version = arena::control_version;
    place(wish, made);
    return made;
}

result<void> reserve_memory(const mapping& arena) {
    const size_t pieces = (arena.size_bytes() + reserve_bytes - 1) / reserve_bytes;
    std::atomic<size_t> next{0};
    std::atomic<int> refused{0};  // errno
    const auto work = [&] {
        for (size_t i = next.fetch_add(1); i < pieces && refused == 0; i = next.fetch_add(1)) {
            const size_t offset = i * reserve_bytes;
            const size_t size_bytes = std::min(reserve_bytes, arena.size_bytes() - offset);
            if (::madvise(arena.data() + offset, size_bytes, MADV_POPULATE_WRITE) == 0) continue;
            if (errno == EINVAL) touch(arena.data() + offset, size_bytes);  // a kernel before 5.14
            else refused = errno;
        }
    };
    std::vector<std::thread> helpers;
    helpers.reserve(reserve_threads);
    try {
        while (helpers.size() + 1 < reserve_threads) helpers.emplace_back(work);
    } catch (const std::system_error&) {
        // No more threads for us: those that run, at least this one, do all of it.
    }
    work();
    for (std::thread& helper : helpers) helper.join();
    if (refused == 0) return {};
    return os_error(refused, "couldn't reserve the arena of " + format_bytes(arena.size_bytes()));
}

result<void> lock_memory(const node_memory& memory) {
    if (memory.huge) return {};
    const mapping& arena = memory.arena;
    // A piece at a time: the lock of the address space is let go in between, so that the worker's start does not wait.
    for (size_t done = 0; done < arena.size_bytes(); done += piece_bytes) {
        const size_t size_bytes = std::min(piece_bytes, arena.size_bytes() - done);
        if (::mlock(arena.data() + done, size_bytes) != 0) return not_locked(errno, arena.size_bytes());
    }
    return {};
}

}  // namespace varde::agent
