// The text to learn: the licences that every Debian system carries, one after the other.
#pragma once

#include "report.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

namespace train {

inline void append_file(std::string& target, const std::string& path) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"), &std::fclose);
    if (!file) die("couldn't open '%s': %s", path.c_str(), reason());
    char block[65536];
    for (size_t count = 0; (count = std::fread(block, 1, sizeof(block), file.get())) > 0;) target.append(block, count);
    if (std::ferror(file.get())) die("couldn't read '%s': %s", path.c_str(), reason());
}

// All regular files of the directory in the order of their names.  Links are left out: they would
// repeat a text.
inline std::string load_text(const std::string& directory) {
    std::error_code problem;
    std::vector<std::string> paths;
    for (std::filesystem::directory_iterator entry(directory, problem), end; !problem && entry != end;
         entry.increment(problem))
        if (entry->symlink_status(problem).type() == std::filesystem::file_type::regular)
            paths.push_back(entry->path().string());
    if (problem) die("couldn't read the directory '%s': %s", directory.c_str(), problem.message().c_str());
    std::sort(paths.begin(), paths.end());
    std::string text;
    for (const std::string& path : paths) append_file(text, path);
    constexpr size_t text_bytes_min = 1024;
    if (text.size() < text_bytes_min)
        die("couldn't train on '%s': its files hold %zu bytes, %zu are needed", directory.c_str(), text.size(),
            text_bytes_min);
    return text;
}

}  // namespace train
