// Texts of CPU sets, and the one call of the kernel that takes such a set.
#include "topo/cpu_set.h"

#include "base/fields.h"
#include "base/units.h"

#include <array>
#include <cerrno>
#include <climits>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace varde::topo {

std::string format_cpus(const cpu_set& cpus) {
    std::string text;
    for (size_t cpu = cpus._Find_first(); cpu < cpus_max; cpu = cpus._Find_next(cpu)) {
        const size_t first = cpu;
        while (cpu + 1 < cpus_max && cpus[cpu + 1]) cpu++;
        if (!text.empty()) text += ',';
        text += std::to_string(first);
        if (cpu != first) text += '-' + std::to_string(cpu);
    }
    return text;
}

result<cpu_set> parse_cpus(std::string_view text) {
    cpu_set cpus;
    if (text.empty()) return cpus;
    if (text.back() == ',') return fail(code::invalid, "a number is missing at the end");
    while (!text.empty()) {
        const std::string_view part = take_until(text, ',');
        const size_t dash = part.find('-');
        const auto first = parse_number(part.substr(0, dash), cpus_max - 1);
        if (!first) return first.error();
        const auto last = dash == std::string_view::npos ? first : parse_number(part.substr(dash + 1), cpus_max - 1);
        if (!last) return last.error();
        if (*last < *first) return fail(code::invalid, "'" + printable(part, 20) + "' ends before it begins");
        for (uint64_t cpu = *first; cpu <= *last; cpu++) cpus.set(cpu);
    }
    return cpus;
}

result<void> run_on(const cpu_set& cpus) {
    // The kernel's form: words of a long, the lowest CPU in the lowest bit.
    constexpr size_t word_bits = sizeof(unsigned long) * CHAR_BIT;
    std::array<unsigned long, cpus_max / word_bits> words{};
    for (size_t cpu = cpus._Find_first(); cpu < cpus_max; cpu = cpus._Find_next(cpu))
        words[cpu / word_bits] |= 1UL << (cpu % word_bits);
    if (::syscall(SYS_sched_setaffinity, 0, sizeof words, words.data()) != 0)
        return os_error(errno, "couldn't run on the CPUs " + format_cpus(cpus));
    return {};
}

}  // namespace varde::topo
