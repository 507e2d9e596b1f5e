// Which rank this process is, and where the ranks meet, from the launcher's environment: srun's, or
// torchrun's variables (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), which are also the way to
// start ranks by hand.  Neither: a world of one rank.  Pure, but for getenv.
#pragma once

#include "hash.h"
#include "report.h"

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace train {

struct launch {
    size_t rank = 0;
    size_t world = 1;
    std::string host;    // of rank 0
    uint16_t port = 0;   // where rank 0 waits for the others
    uint64_t token = 0;  // of this start of this job; what an earlier start left on the network doesn't know it
};

// A whole number in [least, most], or nothing.
inline std::optional<uint64_t> parse_number(const char* text, uint64_t least, uint64_t most) {
    if (text == nullptr || *text < '0' || *text > '9') return {};
    char* end = nullptr;
    errno = 0;
    const unsigned long long value = std::strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || value < least || value > most) return {};
    return value;
}

inline uint64_t number_from(const char* variable, uint64_t least, uint64_t most) {
    const char* text = std::getenv(variable);
    const auto value = parse_number(text, least, most);
    if (!value)
        die("couldn't use %s '%s': it must be a number from %ju to %ju", variable, text ? text : "", uintmax_t{least},
            uintmax_t{most});
    return *value;
}

// The first host of Slurm's short form: "node[03-07,12],login1" -> "node03", "rack[1-2]n[5,9]" ->
// "rack1n5".
inline std::string first_host(std::string_view hosts) {
    std::string first;
    for (size_t i = 0; i < hosts.size() && hosts[i] != ','; i++) {
        if (hosts[i] != '[') {
            first += hosts[i];
            continue;
        }
        const size_t close = hosts.find(']', i);
        if (close == std::string_view::npos) return {};
        const std::string_view range = hosts.substr(i + 1, close - i - 1);
        first += range.substr(0, range.find_first_of(",-"));
        i = close;
    }
    return first;
}

constexpr size_t world_max = 4096;  // more than the ring of an example will ever serve

inline launch launch_by_torchrun() {
    launch place;
    place.world = number_from("WORLD_SIZE", 1, world_max);
    place.rank = number_from("RANK", 0, place.world - 1);
    const char* host = std::getenv("MASTER_ADDR");
    place.host = host ? host : "127.0.0.1";
    place.port = static_cast<uint16_t>(number_from("MASTER_PORT", 1, 65535));
    const char* restart = std::getenv("TORCHELASTIC_RESTART_COUNT");
    place.token = mix(place.port ^ mix(restart ? parse_number(restart, 0, UINT64_MAX).value_or(0) : 0));
    return place;
}

inline launch launch_by_slurm() {
    launch place;
    place.world = number_from("SLURM_STEP_NUM_TASKS", 1, world_max);
    place.rank = number_from("SLURM_PROCID", 0, place.world - 1);
    place.host = first_host(std::getenv("SLURM_STEP_NODELIST"));
    if (place.host.empty()) die("couldn't find a host in SLURM_STEP_NODELIST '%s'", std::getenv("SLURM_STEP_NODELIST"));
    const uint64_t step =
        mix(number_from("SLURM_JOB_ID", 0, UINT32_MAX) << 32 | number_from("SLURM_STEP_ID", 0, UINT32_MAX));
    const char* restart = std::getenv("SLURM_RESTART_COUNT");  // absent at the first start
    place.token = mix(step ^ mix(restart ? parse_number(restart, 0, UINT64_MAX).value_or(0) : 0));
    place.port = static_cast<uint16_t>(20000 + step % 12000);  // below the ports that the kernel gives to clients
    return place;
}

inline launch find_launch() {
    if (std::getenv("RANK") != nullptr && std::getenv("WORLD_SIZE") != nullptr) return launch_by_torchrun();
    // Not SLURM_PROCID alone: a batch script has that one too, without a step.
    if (std::getenv("SLURM_STEP_NODELIST") != nullptr && std::getenv("SLURM_PROCID") != nullptr)
        return launch_by_slurm();
    return launch{};
}

}  // namespace train
