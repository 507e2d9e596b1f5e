// A header's text becomes lists.  The grammar has a fixed depth, so nothing recurses; every count ends at its limit.
#include "pack/header_json.h"

#include "base/limits.h"
#include "pack/entries.h"
#include "pack/json_scanner.h"
#include "pack/text.h"

#include <algorithm>

namespace varde::pack {

namespace {

// Tensors of the ranks, one padding for each, and the seal.
constexpr size_t entries_max = limits::tensors_per_node_max + limits::local_ranks_max + 1;
constexpr size_t metadata_max = 64;

// Each member returns false to stop, after it has said why in `broken`.
class header_parser {
public:
    header_parser(std::string_view text, bool split, raw_header& target) noexcept
        : scan_(text), split_(split), target_(target) {}

    // object := '{' [ name ':' value ( ',' name ':' value )* ] '}'
    void parse() {
        if (object() && !scan_.done()) stop_here("its end");
    }

private:
    bool stop(std::string reason) {
        target_.broken = std::move(reason);
        return false;
    }
    bool stop_here(const std::string& wanted) {
        return stop("at byte " + std::to_string(scan_.position()) + " of its text stands something else than " +
                    wanted);
    }
    bool expect(char letter) { return scan_.take(letter) || stop_here(std::string("'") + letter + "'"); }
    bool text(std::string& ret_value) { return scan_.string(ret_value) || stop_here("a string"); }

    bool object() {
        if (!expect('{')) return false;
        if (scan_.take('}')) return true;
        do {
            std::string name;
            if (!text(name) || !expect(':') || !value(std::move(name))) return false;
        } while (scan_.take(','));
        return expect('}');
    }
    bool value(std::string name) {
        if (name == keys::metadata && !split_) {
            if (metadata_seen_) return stop("it has two metadata objects");
            metadata_seen_ = true;
            return metadata();
        }
        return tensor(std::move(name));
    }
    bool metadata();
    bool metadata_value(const std::string& name);
    bool tensor(std::string name);
    bool field(const std::string& name, raw_entry& entry, unsigned& seen);
    bool list(std::vector<uint64_t>& numbers, size_t most);

    json_scanner scan_;
    const bool split_;
    raw_header& target_;
    bool metadata_seen_ = false;
};

bool header_parser::metadata() {
    if (!expect('{')) return false;
    if (scan_.take('}')) return true;
    do {
        std::string name;
        if (!text(name) || !expect(':') || !metadata_value(name)) return false;
    } while (scan_.take(','));
    return expect('}');
}

bool header_parser::metadata_value(const std::string& name) {
    std::string value;
    if (!text(value)) return false;
    // Keys of others are theirs; they need not be kept.
    if (!name.starts_with("varde.")) return true;
    if (target_.find(name) != nullptr) return stop("its metadata has " + in_quotes(name) + " twice");
    if (target_.metadata.size() == metadata_max)
        return stop("its metadata has more than " + std::to_string(metadata_max) + " keys");
    target_.metadata.emplace_back(name, std::move(value));
    return true;
}

bool header_parser::tensor(std::string name) {
    if (target_.entries.size() == entries_max)
        return stop("it has more than " + std::to_string(entries_max) + " tensors");
    raw_entry& entry = target_.entries.emplace_back();
    entry.name = std::move(name);
    if (!expect('{')) return false;
    unsigned seen = 0;  // fields, one bit each
    do {
        std::string key;
        if (!text(key) || !expect(':') || !field(key, entry, seen)) return false;
    } while (scan_.take(','));
    if (!expect('}')) return false;
    return seen == (split_ ? 6U : 7U) || stop("tensor " + in_quotes(entry.name) + " lacks a field");
}

bool header_parser::field(const std::string& name, raw_entry& entry, unsigned& seen) {
    const bool is_type = name == "dtype" && !split_;
    const bool is_shape = name == "shape";
    const bool is_second = name == (split_ ? "offset" : "data_offsets");
    if (!is_type && !is_shape && !is_second)
        return stop("tensor " + in_quotes(entry.name) + " has the unknown field " + in_quotes(name));
    const unsigned bit = is_type ? 1U : is_shape ? 2U : 4U;
    if ((seen & bit) != 0)
        return stop("tensor " + in_quotes(entry.name) + " has the field " + in_quotes(name) + " twice");
    seen |= bit;
    if (is_type) return text(entry.type);
    const bool places = is_second && !split_;
    return list(is_shape ? entry.shape : entry.second, places ? 2 : limits::tensor_dims_max);
}

bool header_parser::list(std::vector<uint64_t>& numbers, size_t most) {
    if (!expect('[')) return false;
    if (scan_.take(']')) return true;
    do {
        uint64_t number = 0;
        if (!scan_.number(number)) return stop_here("an integer from 0 to 2^64 - 1");
        if (numbers.size() == most)
            return stop("a list of more than " + std::to_string(most) + " numbers ends at byte " +
                        std::to_string(scan_.position()));
        numbers.push_back(number);
    } while (scan_.take(','));
    return expect(']');
}

raw_header read_json(std::string_view text, bool split) {
    raw_header made;
    header_parser(text, split, made).parse();
    return made;
}

}  // namespace

const std::string* raw_header::find(std::string_view name) const noexcept {
    const auto found =
        std::find_if(metadata.begin(), metadata.end(), [&](const auto& pair) { return pair.first == name; });
    return found == metadata.end() ? nullptr : &found->second;
}

raw_header read_header_json(std::string_view text) { return read_json(text, false); }

raw_header read_split_json(std::string_view text) { return read_json(text, true); }

}  // namespace varde::pack
