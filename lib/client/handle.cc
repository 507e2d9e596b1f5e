// The page of a run.
#include "client/handle.h"

#include "base/limits.h"

#include <new>
#include <sys/mman.h>
#include <unistd.h>

static_assert(sizeof(varde_run) <= varde::limits::page_bytes);

varde_run* varde_run::make() noexcept {
    void* page = ::mmap(nullptr, varde::limits::page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return nullptr;
    varde::discard(::madvise(page, varde::limits::page_bytes, MADV_WIPEONFORK),
                   "without it forked() asks for the process number");
    auto* made = new (page) varde_run;
    made->owner = ::getpid();
    return made;
}

void varde_run::discard_page() noexcept { ::munmap(this, varde::limits::page_bytes); }

bool varde_run::forked() const noexcept { return session == nullptr || owner != ::getpid(); }
