// A parser's events become lists.  No tree is built: deep nesting ends at the first level too many, counts at their limits.
#include "pack/header_json.h"

#include "base/limits.h"
#include "pack/entries.h"
#include "pack/text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace varde::pack {

namespace {

// Tensors of the ranks, one padding for each, and the seal.
constexpr size_t entries_max = limits::tensors_per_node_max + limits::local_ranks_max + 1;
constexpr size_t metadata_max = 64;

enum class level : uint8_t { outside, top, tensor, list, metadata };
enum class field : uint8_t { none, type, shape, second };

// Receives the events; each returns false to stop, after it has said why in `broken`.
class header_events {
public:
    header_events(raw_header& target, bool split) noexcept : target_(target), split_(split) {}

    bool start_object(size_t) {
        if (level_ == level::outside && !done_) return enter(level::top);
        if (level_ == level::top) return enter(metadata_next_ ? level::metadata : level::tensor);
        return stop("an object stands where none may be");
    }
    bool end_object() {
        if (level_ == level::tensor) {
            if (seen_ != (split_ ? 6U : 7U)) return stop("tensor " + in_quotes(target_.entries.back().name) + " lacks a field");
            return enter(level::top);
        }
        done_ = level_ == level::top;
        return enter(done_ ? level::outside : level::top);
    }
    bool key(std::string& name);
    bool string(std::string& value);
    bool start_array(size_t) {
        if (level_ != level::tensor || field_ == field::type) return stop("a list stands where none may be");
        return enter(level::list);
    }
    bool end_array() { return enter(level::tensor); }
    bool number_unsigned(uint64_t value);
    bool number_integer(int64_t) { return stop("a number is negative"); }
    bool number_float(double, const std::string& text) { return stop("number " + in_quotes(text, 40) + " is no integer below 2^64"); }
    bool boolean(bool) { return stop("a truth value stands where none may be"); }
    bool null() { return stop("null stands where it may not be"); }
    template <class bytes>
    bool binary(bytes&) { return stop("binary data stands in a text"); }
    template <class error>
    bool parse_error(size_t position, const std::string&, const error&) { return stop("its text is no JSON from byte " + std::to_string(position) + " on"); }

private:
    bool enter(level next) noexcept { level_ = next; return true; }
    bool stop(std::string reason) {
        if (target_.broken.empty()) target_.broken = std::move(reason);
        return false;
    }
    bool field_key(const std::string& name);

    raw_header& target_;
    const bool split_;
    level level_ = level::outside;
    field field_ = field::none;
    unsigned seen_ = 0;  // fields of the current tensor, one bit each
    bool metadata_next_ = false;
    bool metadata_seen_ = false;
    bool done_ = false;
    std::string metadata_key_;
};

bool header_events::field_key(const std::string& name) {
    field_ = field::none;
    if (name == "dtype" && !split_) field_ = field::type;
    if (name == "shape") field_ = field::shape;
    if (name == (split_ ? "offset" : "data_offsets")) field_ = field::second;
    if (field_ == field::none) return stop("a tensor has the unknown field " + in_quotes(name));
    const unsigned bit = 1U << (static_cast<unsigned>(field_) - 1);
    if ((seen_ & bit) != 0) return stop("tensor " + in_quotes(target_.entries.back().name) + " has the field " + in_quotes(name) + " twice");
    seen_ |= bit;
    return true;
}

bool header_events::key(std::string& name) {
    if (level_ == level::tensor) return field_key(name);
    if (level_ == level::metadata) {
        metadata_key_ = std::move(name);
        return true;
    }
    metadata_next_ = name == keys::metadata && !split_;
    if (metadata_next_) {
        if (metadata_seen_) return stop("it has two metadata objects");
        metadata_seen_ = true;
        return true;
    }
    if (target_.entries.size() == entries_max) return stop("it has more than " + std::to_string(entries_max) + " tensors");
    seen_ = 0;
    target_.entries.push_back({.name = std::move(name), .type = {}, .shape = {}, .second = {}});
    return true;
}

bool header_events::string(std::string& value) {
    if (level_ == level::tensor && field_ == field::type) {
        target_.entries.back().type = std::move(value);
        return true;
    }
    if (level_ != level::metadata) return stop("a text stands where none may be");
    // Other programs' keys are theirs; they need not be kept.
    if (!metadata_key_.starts_with("varde.")) return true;
    if (target_.find(metadata_key_) != nullptr) return stop("its metadata has " + in_quotes(metadata_key_) + " twice");
    if (target_.metadata.size() == metadata_max) return stop("its metadata has more than " + std::to_string(metadata_max) + " keys");
    target_.metadata.emplace_back(std::move(metadata_key_), std::move(value));
    return true;
}

bool header_events::number_unsigned(uint64_t value) {
    if (level_ != level::list) return stop("a number stands where none may be");
    raw_entry& entry = target_.entries.back();
    auto& list = field_ == field::shape ? entry.shape : entry.second;
    const size_t most = field_ == field::second && !split_ ? 2 : limits::tensor_dims_max;
    if (list.size() == most) return stop("a list of tensor " + in_quotes(entry.name) + " has more than " + std::to_string(most) + " numbers");
    list.push_back(value);
    return true;
}

raw_header read_json(std::string_view text, bool split) {
    raw_header made;
    // The writer uses none of them, and the parser takes a zero byte for the end of the text.
    const bool control = std::any_of(text.begin(), text.end(), [](char letter) { return static_cast<unsigned char>(letter) < 0x20; });
    if (control || !text.starts_with('{')) {
        made.broken = control ? "its text contains control characters" : "its text does not begin with '{'";
        return made;
    }
    header_events events(made, split);
    const bool whole = nlohmann::json::sax_parse(text.data(), text.data() + text.size(), &events, nlohmann::json::input_format_t::json, true, false);
    if (!whole && made.broken.empty()) made.broken = "its text is no JSON";
    return made;
}

}  // namespace

const std::string* raw_header::find(std::string_view name) const noexcept {
    const auto found = std::find_if(metadata.begin(), metadata.end(), [&](const auto& pair) { return pair.first == name; });
    return found == metadata.end() ? nullptr : &found->second;
}

raw_header read_header_json(std::string_view text) { return read_json(text, false); }

raw_header read_split_json(std::string_view text) { return read_json(text, true); }

}  // namespace varde::pack
