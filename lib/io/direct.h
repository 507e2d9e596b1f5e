// Whether a file takes transfers past the page cache of what this project moves: whole pages, to and from whole pages.
//
// O_DIRECT at open is a promise that some file systems do not keep, and the alignment that they ask for differs from
// file to file.  First the kernel is asked, then the file tried.  No state; any thread.
#pragma once

#include <cstdint>

struct statx;

namespace varde::io {

enum class direct_answer : uint8_t { works, refused, unknown };

// STATX_DIOALIGN: Linux 6.1, and the file systems that answer it.
direct_answer ask_direct(int fd) noexcept;
direct_answer direct_answer_of(const struct statx& about) noexcept;

// For a file that is open with O_DIRECT and still to be written: asks, and where the answer is unknown writes a page of
// zeros at its begin.  False: set the file to do without.  True also where the trial fails for another reason (no
// space, an error of the device): the first real write will meet it and say so.
bool takes_direct_writes(int fd) noexcept;

}  // namespace varde::io
