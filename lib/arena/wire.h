// Numbers and strings in a message: a writer that appends, a reader that checks.  Little-endian, no padding.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace varde::arena {

class wire_writer {
public:
    template <class T>
    void number(T value) {
        static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
        bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    void text(std::string_view value) {
        number(static_cast<uint32_t>(value.size()));
        bytes_.append(value);
    }
    const std::string& bytes() const noexcept { return bytes_; }
    std::string take() noexcept { return std::move(bytes_); }

private:
    std::string bytes_;
};

// After a read that does not fit, ok() is false for good and every further read gives 0 or "".
class wire_reader {
public:
    explicit wire_reader(std::string_view bytes) noexcept : rest_(bytes) {}

    template <class T>
    T number() noexcept {
        static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
        T value{};
        if (rest_.size() < sizeof value) ok_ = false;
        if (!ok_) return T{};
        std::memcpy(&value, rest_.data(), sizeof value);
        rest_.remove_prefix(sizeof value);
        return value;
    }
    std::string text(uint32_t bytes_max) {
        const auto length = number<uint32_t>();
        if (length > bytes_max || length > rest_.size()) ok_ = false;
        if (!ok_) return {};
        std::string value(rest_.substr(0, length));
        rest_.remove_prefix(length);
        return value;
    }
    void refuse() noexcept { ok_ = false; }
    bool ok() const noexcept { return ok_; }
    size_t left() const noexcept { return rest_.size(); }
    bool done() const noexcept { return ok_ && rest_.empty(); }

private:
    std::string_view rest_;
    bool ok_ = true;
};

}  // namespace varde::arena
