// Non-temporal stores of SSE2, which every x86-64 has; memcpy elsewhere.
//
// glibc's memcpy does the same, but only above a size of 3/4 of the last-level cache (99 MiB on the machine of these
// figures): chunks never get there.  1 GiB of cold memory in pieces of 4 MiB (16 KiB to 16 MiB are alike), one thread
// of a Xeon of 2023, GB/s; what it is worth end to end is the figure `bench staging_vs_copy`:
//
//   memcpy                  7.2
//   SSE2, one stream        9.9
//   SSE2, 4 pages at once  11.3   the prefetcher of the hardware stops at the end of a page, and starts again slowly;
//                                 2 and 8 pages are alike
//   AVX2, one stream        8.8
//   AVX2, 4 pages at once  11.4   not worth a second function and a choice at run time
#include "client/copy_bytes.h"

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace varde::client {

#if defined(__SSE2__)

namespace {

constexpr size_t line_bytes = 64;
constexpr size_t page_bytes = 4096;
constexpr size_t block_bytes = 4 * page_bytes;
// Below it, what is copied fits into the second-level cache, and so does what a caller may want to do with it.
constexpr size_t streamed_bytes_min = 64 << 10;

void stream_line(std::byte* target, const std::byte* source) noexcept {
    const auto* from = reinterpret_cast<const __m128i*>(source);
    auto* to = reinterpret_cast<__m128i*>(target);
    const __m128i first = _mm_loadu_si128(from);
    const __m128i second = _mm_loadu_si128(from + 1);
    const __m128i third = _mm_loadu_si128(from + 2);
    const __m128i fourth = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, first);
    _mm_stream_si128(to + 1, second);
    _mm_stream_si128(to + 2, third);
    _mm_stream_si128(to + 3, fourth);
}

void stream_block(std::byte* target, const std::byte* source) noexcept {
    for (size_t line = 0; line < page_bytes; line += line_bytes)
        for (size_t page = 0; page < block_bytes; page += page_bytes)
            stream_line(target + page + line, source + page + line);
}

}  // namespace

void copy_bytes(std::byte* target, const std::byte* source, size_t size_bytes) noexcept {
    if (size_bytes < streamed_bytes_min) {
        if (size_bytes > 0) std::memcpy(target, source, size_bytes);
        return;
    }
    // Whole lines of the target; the source may lie as it likes.
    const size_t head_bytes = (line_bytes - reinterpret_cast<uintptr_t>(target) % line_bytes) % line_bytes;
    std::memcpy(target, source, head_bytes);
    size_t done = head_bytes;
    for (; size_bytes - done >= block_bytes; done += block_bytes) stream_block(target + done, source + done);
    for (; size_bytes - done >= line_bytes; done += line_bytes) stream_line(target + done, source + done);
    std::memcpy(target + done, source + done, size_bytes - done);
    _mm_sfence();  // such stores are ordered by nothing else, not even by a release
}

#else

void copy_bytes(std::byte* target, const std::byte* source, size_t size_bytes) noexcept {
    if (size_bytes > 0) std::memcpy(target, source, size_bytes);
}

#endif

}  // namespace varde::client
