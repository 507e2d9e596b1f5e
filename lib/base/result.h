// result<T>: a value or an error, the only way a function of Varde reports failure.
//
// The member names are those of std::expected, so that it can take this file's place once the
// oldest supported compiler has it without -std=c++2b.  [[nodiscard]] on the class makes an ignored
// failure a compiler warning; a failure that is ignored on purpose goes through discard(), the only
// word for it in the tree, so that a search finds each one.
#pragma once

#include <cassert>
#include <string>
#include <utility>
#include <variant>

namespace varde {

// The numbers are part of the C API (varde.h repeats them; lib/client/api.cc asserts that they agree).
enum class code : int {
    ok = 0,
    invalid = 1,      // an argument or option is wrong; trying again does not help
    unavailable = 2,  // nobody answers: no agent, no storage, no Slurm; may work later
    timeout = 3,      // the deadline passed
    busy = 4,         // somebody else has it (a run that another job writes)
    no_memory = 5,    // the arena, or memory that may be locked, is too small
    no_space = 6,     // the file system is full, or the quota
    io = 7,           // the system refused a read, a write or another call
    damaged = 8,      // bytes that were read break a rule of their format
    not_found = 9,    // there is no such thing
    fenced = 10,      // a newer incarnation of the run exists; this one writes no more
    mismatch = 11,    // what is stored does not fit what is asked for (shape, type, world)
    internal = 12,    // a mistake of ours
};

struct failure {
    code what = code::internal;
    int os_errno = 0;     // 0 where no system call failed
    std::string context;  // one line: what failed, on what, why, and what the reader can do
};

template <class T>
class [[nodiscard]] result {
public:
    result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    result(failure why) : state_(std::in_place_index<1>, std::move(why)) {}

    bool has_value() const noexcept { return state_.index() == 0; }
    explicit operator bool() const noexcept { return has_value(); }

    T& value() & {
        assert(has_value());
        return *std::get_if<0>(&state_);
    }
    const T& value() const& {
        assert(has_value());
        return *std::get_if<0>(&state_);
    }
    T&& value() && {
        assert(has_value());
        return std::move(*std::get_if<0>(&state_));
    }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T&& operator*() && { return std::move(*this).value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }

    const failure& error() const& {
        assert(!has_value());
        return *std::get_if<1>(&state_);
    }
    failure&& error() && {
        assert(!has_value());
        return std::move(*std::get_if<1>(&state_));
    }

private:
    std::variant<T, failure> state_;
};

template <>
class [[nodiscard]] result<void> {
public:
    result() = default;
    result(failure why) : why_(std::move(why)), failed_(true) {}

    bool has_value() const noexcept { return !failed_; }
    explicit operator bool() const noexcept { return !failed_; }
    const failure& error() const& {
        assert(failed_);
        return why_;
    }
    failure&& error() && {
        assert(failed_);
        return std::move(why_);
    }

private:
    failure why_;
    bool failed_ = false;
};

// Ignores an outcome on purpose; `why` is for the reader.
template <class T>
void discard(const result<T>&, const char* /*why*/) {}
inline void discard(int, const char* /*why*/) {}

// "CONTEXT: strerror(os_errno)", with the code that fits the number (ENOSPC -> no_space, ...).
failure os_error(int os_errno, std::string context);
inline failure fail(code what, std::string context) { return failure{what, 0, std::move(context)}; }

// Name of a code for people: "busy", "damaged", ...
const char* code_name(code what) noexcept;

}  // namespace varde
