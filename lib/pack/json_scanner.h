// The part of JSON that packs are written in, token by token: no white space, numbers that are digits, strings
// whose only escapes are \", \\ and \u00XX for control bytes.  Internal to lib/pack.
//
// A pack is read by whoever starts a training again, up to a hundred thousand tensors at once, from bytes that
// nobody vouches for: a scanner of a page is faster than a whole parser of JSON, and has nothing in it that a pack
// does not need.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace varde::pack {

class json_scanner {
public:
    explicit json_scanner(std::string_view text) noexcept : text_(text) {}

    // Each takes its token, or returns false and stays where it is.
    bool take(char letter) noexcept;
    bool string(std::string& ret_value);
    bool number(uint64_t& ret_value) noexcept;

    bool done() const noexcept { return at_ == text_.size(); }
    size_t position() const noexcept { return at_; }

private:
    bool escape(size_t& at, std::string& target) const;

    std::string_view text_;
    size_t at_ = 0;
};

}  // namespace varde::pack
