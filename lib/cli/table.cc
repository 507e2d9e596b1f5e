// Layout of tables.
#include "cli/table.h"

#include <algorithm>
#include <cassert>

namespace varde::cli {

namespace {

constexpr size_t gap = 2;

}  // namespace

size_t text_width(const std::string& text) {
    return static_cast<size_t>(std::count_if(
        text.begin(), text.end(), [](char letter) { return (static_cast<unsigned char>(letter) & 0xC0) != 0x80; }));
}

void table::add(std::vector<std::string> cells) {
    assert(cells.size() == columns_.size());
    rows_.push_back(std::move(cells));
}

std::string table::text(size_t indent) const {
    std::vector<size_t> widths;
    for (size_t index = 0; index < columns_.size(); index++) {
        size_t most = text_width(columns_[index].title);
        for (const auto& row : rows_) most = std::max(most, text_width(row[index]));
        widths.push_back(most);
    }
    std::string target;
    const auto append = [&](const auto& cell_of) {
        target.append(indent, ' ');
        for (size_t index = 0; index < columns_.size(); index++) {
            const std::string& cell = cell_of(index);
            const size_t pad = widths[index] - text_width(cell);
            if (columns_[index].side == align::right) target.append(pad, ' ');
            target += cell;
            // Nothing hangs behind the last column.
            if (index + 1 < columns_.size()) target.append(gap + (columns_[index].side == align::left ? pad : 0), ' ');
        }
        target += '\n';
    };
    append([&](size_t index) -> const std::string& { return columns_[index].title; });
    for (const auto& row : rows_) append([&](size_t index) -> const std::string& { return row[index]; });
    return target;
}

}  // namespace varde::cli
