// Memory on whole pages, for transfers that go past the page cache.
#pragma once

#include "base/checked.h"
#include "base/limits.h"
#include "base/result.h"

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace varde {

struct free_pages {
    void operator()(std::byte* bytes) const noexcept { std::free(bytes); }
};
using pages = std::unique_ptr<std::byte[], free_pages>;

// Not initialised.  A size that a file claims may be more than the machine has: no_memory.
inline result<pages> make_pages(uint64_t size_bytes) {
    const uint64_t whole = align_up(size_bytes, limits::page_bytes);
    pages made(static_cast<std::byte*>(std::aligned_alloc(limits::page_bytes, whole)));
    if (!made) return fail(code::no_memory, "couldn't get " + std::to_string(size_bytes) + " bytes of memory");
    return made;
}

}  // namespace varde
