// What both ways of moving bytes, ring and plain calls, must agree on: when a short transfer goes on and when it has
// ended.  No state; any thread.
#pragma once

#include "io/engine.h"

namespace varde::io {

// A request on its way.
struct pending {
    request wanted;
    uint64_t bytes_done = 0;
    uint32_t retries = 0;  // since the last progress
};

enum class progress : uint8_t { again, ended };

// Takes in what one system call answered (bytes, or -errno).  `again`: the rest is to be submitted.  `ended`:
// `ret_errno` is the outcome.
progress advance(pending& request, int64_t answer, int* ret_errno) noexcept;

// pread/pwrite of the whole request.
completion transfer(const request& wanted) noexcept;

}  // namespace varde::io
