// Tables for people: columns as wide as their widest cell, nothing drawn around them.  Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace varde::cli {

// Characters of UTF-8, taking each for one column wide: right for all but wide scripts and combining marks, which only
// shift a line.
size_t text_width(const std::string& text);

enum class align : uint8_t { left, right };

struct column {
    std::string title;
    align side = align::left;
};

class table {
public:
    explicit table(std::vector<column> columns) : columns_(std::move(columns)) {}
    // As many cells as columns.  Cells are one line of UTF-8 without control characters.
    void add(std::vector<std::string> cells);
    // Titles and rows, each line with its line feed; `indent` spaces before each.
    std::string text(size_t indent = 0) const;

private:
    std::vector<column> columns_;
    std::vector<std::vector<std::string>> rows_;
};

}  // namespace varde::cli
