// Names for error codes, and the code that fits an errno.
#include "base/result.h"

#include <cerrno>
#include <cstring>

namespace varde {

namespace {

code code_of(int os_errno) noexcept {
    switch (os_errno) {
    case ENOSPC:
    case EDQUOT: return code::no_space;
    case ENOMEM: return code::no_memory;
    case ENOENT: return code::not_found;
    case ETIMEDOUT: return code::timeout;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE: return code::unavailable;
    default: return code::io;
    }
}

}  // namespace

failure os_error(int os_errno, std::string context) {
    char text[128] = "";
    // The GNU variant returns the text, which need not be in the buffer.
    const char* reason = ::strerror_r(os_errno, text, sizeof text);
    context += ": ";
    context += reason;
    return failure{code_of(os_errno), os_errno, std::move(context)};
}

const char* code_name(code what) noexcept {
    switch (what) {
    case code::ok: return "ok";
    case code::invalid: return "invalid";
    case code::unavailable: return "unavailable";
    case code::timeout: return "timeout";
    case code::busy: return "busy";
    case code::no_memory: return "no memory";
    case code::no_space: return "no space";
    case code::io: return "input/output";
    case code::damaged: return "damaged";
    case code::not_found: return "not found";
    case code::fenced: return "fenced";
    case code::mismatch: return "mismatch";
    case code::internal: return "internal";
    }
    return "unknown";
}

}  // namespace varde
