// One run of each, and the time it took.
#include "peers.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/process.h"
#include "pack/layout.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <thread>
#include <unistd.h>
#include <nlohmann/json.hpp>

namespace varde::bench {

result<double> run_fio(const settings& with, fio_way way, uint64_t size_bytes) {
    program fio;
    fio.arguments = {"/usr/bin/fio",
                     "--name=varde",
                     "--directory=" + with.directory,
                     way == fio_way::write ? "--rw=write" : "--rw=read",
                     "--direct=1",
                     "--size=" + std::to_string(size_bytes),
                     "--bs=" + std::to_string(limits::chunk_bytes_default),
                     "--iodepth=" + std::to_string(fio_depth),
                     "--ioengine=io_uring",
                     "--fixedbufs=1",
                     "--output-format=json"};
    if (way == fio_way::write) fio.arguments.insert(fio.arguments.end(), {"--end_fsync=1", "--unlink=1"});
    fio.timeout_ms = 600'000;
    const result<program_outcome> ran = run_program(fio);
    if (!ran) return ran.error();
    const auto answer = nlohmann::json::parse(ran->output, nullptr, false);
    if (ran->exit_status != 0 || answer.is_discarded() || !answer.contains("jobs"))
        return fail(code::unavailable,
                    "fio failed (status " + std::to_string(ran->exit_status) + "): " + ran->output.substr(0, 300));
    const double took_s = answer["jobs"][0].value("job_runtime", 0.0) / 1000;
    if (took_s <= 0) return fail(code::unavailable, "fio has not said how long it took");
    return took_s;
}

result<double> read_beside_copy(const settings& with, const mapping& source, const mapping& target, double pace_s) {
    constexpr size_t piece_bytes = limits::chunk_bytes_default;
    std::atomic<bool> ended{false};
    std::thread copying([&] {
        const uint64_t start = mono_ns();
        for (size_t done = 0; !ended; done += piece_bytes) {
            const double due_s = pace_s * static_cast<double>(done) / static_cast<double>(target.size_bytes());
            const double early_s = due_s - seconds_since(start);
            if (early_s > 0) std::this_thread::sleep_for(std::chrono::duration<double>(early_s));
            const std::span<const std::byte> piece(source.data() + done % source.size_bytes(), piece_bytes);
            const uint64_t sum = pack::checksum(piece);
            std::memcpy(target.data() + done % target.size_bytes(), piece.data(), piece_bytes);
            if (sum == 0) std::memset(target.data(), 1, 1);  // so that the checksum is of use
        }
    });
    result<double> took_s = run_fio(with, fio_way::read, target.size_bytes());
    ended = true;
    copying.join();
    return took_s;
}

result<double> write_plainly(const settings& with, const mapping& memory) {
    const std::string path = with.directory + "/plain", partial = path + ".partial";
    const uint64_t start = mono_ns();
    unique_fd file(::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!file) return os_error(errno, "couldn't create '" + partial + "'");
    for (size_t done = 0; done < memory.size_bytes();) {
        const ssize_t wrote = ::write(file.get(), memory.data() + done, memory.size_bytes() - done);
        if (wrote <= 0) return os_error(errno, "couldn't write '" + partial + "'");
        done += static_cast<size_t>(wrote);
    }
    if (::fsync(file.get()) != 0 || ::rename(partial.c_str(), path.c_str()) != 0)
        return os_error(errno, "couldn't finish '" + path + "'");
    const unique_fd directory(::open(with.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory || ::fsync(directory.get()) != 0) return os_error(errno, "couldn't sync '" + with.directory + "'");
    const double took_s = seconds_since(start);
    file.reset();
    ::unlink(path.c_str());
    return took_s;
}

}  // namespace varde::bench
