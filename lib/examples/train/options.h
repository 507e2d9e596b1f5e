// The command line of the example.  A wrong option ends the process, with one line that names it,
// before any other rank is met.
#pragma once

#include "launch.h"

#include <cstdint>
#include <cstring>
#include <getopt.h>
#include <string>

namespace train {

struct options {
    uint64_t steps = 2000;
    uint64_t rows = 400'000;  // of the table; 192 bytes of state each, divided among the ranks
    uint64_t batch = 64;      // guesses per rank and step
    uint64_t seed = 1;
    uint64_t print_every = 10;  // steps
    uint64_t save_every = 0;    // steps; 0: when Varde asks for it
    uint64_t step_ms = 0;       // a step takes at least so long: the work of a larger model
    bool checkpoints = true;
    std::string text = "/usr/share/common-licenses";
    std::string result;  // the file that gets the checksum of the final weights
};

inline constexpr char usage[] =
    "usage: train [OPTION]...\n"
    "Trains a small language model, one process per rank, started by srun or torchrun (or alone).\n"
    "  --steps N         optimizer steps in all (2000)\n"
    "  --rows N          size of the model's table (400000: 77 MB of state in all)\n"
    "  --batch N         guesses per rank and step (64)\n"
    "  --seed N          of the first weights and of the batches (1)\n"
    "  --text DIR        learn the files of DIR (/usr/share/common-licenses)\n"
    "  --print-every N   print the loss every N steps (10)\n"
    "  --save-every N    save every N steps, besides the checkpoints that are due\n"
    "  --step-ms N       let a step take at least N ms, as that of a larger model would\n"
    "  --no-checkpoint   do without Varde\n"
    "  --result FILE     write the checksum of the final weights to FILE\n"
    "  --help            print this\n";

inline uint64_t option_number(const char* name, const char* text, uint64_t least, uint64_t most) {
    const auto value = parse_number(text, least, most);
    if (!value)
        die("couldn't use --%s '%s': give a number from %ju to %ju", name, text, uintmax_t{least}, uintmax_t{most});
    return *value;
}

inline options read_options(int argc, char** argv) {
    options chosen;
    const struct {
        const char* name;
        uint64_t* target;
        uint64_t least, most;
    } numbers[] = {
        {"steps", &chosen.steps, 1, 1'000'000'000},
        {"rows", &chosen.rows, 1, 1'000'000'000},
        {"batch", &chosen.batch, 1, 1'000'000},
        {"seed", &chosen.seed, 0, UINT64_MAX},
        {"print-every", &chosen.print_every, 1, 1'000'000'000},
        {"save-every", &chosen.save_every, 0, 1'000'000'000},
        {"step-ms", &chosen.step_ms, 0, 1'000'000},
    };
    enum : int { number = 1, text, result, no_checkpoint, help };
    const option known[] = {
        {"steps", required_argument, nullptr, number},
        {"rows", required_argument, nullptr, number},
        {"batch", required_argument, nullptr, number},
        {"seed", required_argument, nullptr, number},
        {"print-every", required_argument, nullptr, number},
        {"save-every", required_argument, nullptr, number},
        {"step-ms", required_argument, nullptr, number},
        {"text", required_argument, nullptr, text},
        {"result", required_argument, nullptr, result},
        {"no-checkpoint", no_argument, nullptr, no_checkpoint},
        {"help", no_argument, nullptr, help},
        {},
    };
    for (int which = 0, index = 0; (which = ::getopt_long(argc, argv, "", known, &index)) != -1;) {
        if (which == number)
            for (const auto& each : numbers)
                if (std::strcmp(each.name, known[index].name) == 0)
                    *each.target = option_number(each.name, optarg, each.least, each.most);
        if (which == text) chosen.text = optarg;
        if (which == result) chosen.result = optarg;
        if (which == no_checkpoint) chosen.checkpoints = false;
        if (which == help) {
            std::fputs(usage, stdout);
            std::exit(0);
        }
        if (which == '?') std::exit(2);  // getopt_long has said why
    }
    if (optind < argc) die("couldn't use '%s': it is no option; see train --help", argv[optind]);
    return chosen;
}

}  // namespace train
