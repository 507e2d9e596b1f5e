// Quantities as people write and read them: sizes and durations.  No I/O, no globals; any thread.
//
// The errors say only what is wrong with the text; who asked adds the name of the option or key and a right example.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace varde {

// Seconds from "20" (minutes, as Slurm reads a bare number), Slurm's forms MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS,
// and 90s, 20m, 1h30m, 2d (units from large to small, each at most once).  At least one second, at most 365 days.
result<uint64_t> parse_duration_s(std::string_view text);

// Bytes from "4096", "64K", "512M", "4G", "1.5T", "4GiB", "4GB" (units are powers of 1024, as in Slurm; any case).
result<uint64_t> parse_size_bytes(std::string_view text);

// A decimal number with nothing around it, at most `most`.
result<uint64_t> parse_number(std::string_view text, uint64_t most = UINT64_MAX);

std::string format_bytes(uint64_t bytes);       // "1.5 GiB", "512 B"
std::string hexadecimal(uint64_t number);       // 16 digits, as checksums are shown
std::string format_duration(uint64_t seconds);  // "1h30m", "45s"

// Text of unknown origin, made fit for one line of a message: control characters and other bytes outside printable
// ASCII become '?', and what is longer than `most` bytes ends in "...".
std::string printable(std::string_view text, size_t most = 80);

}  // namespace varde
