// What a checkpoint is compared to: fio, and what an application writes by hand.
#pragma once

#include "base/handle.h"
#include "figure.h"

namespace varde::bench {

constexpr uint32_t fio_depth = 32;  // as the agent's engine

enum class fio_way : uint8_t { write, read };

// Seconds of its transfers and, for a write, of one fsync; it has laid its file out before its clock starts.  Blocks as
// large as our chunks, O_DIRECT, io_uring with registered buffers.
result<double> run_fio(const settings& with, fio_way way, uint64_t size_bytes);

// Seconds of fio's read while a thread beside it does what a restore must do with each byte: it checksums `source` in a
// ring and copies it to `target`, `target` once in `pace_s` seconds.  How fast that could be on this machine, where
// copying and the transfers share its memory and cores.
result<double> read_beside_copy(const settings& with, const mapping& source, const mapping& target, double pace_s);

// Seconds of open, write, fsync, rename and fsync of the directory.
result<double> write_plainly(const settings& with, const mapping& memory);

}  // namespace varde::bench
