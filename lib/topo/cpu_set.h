// Sets of CPUs, numbered as the kernel does, and their text "0-15,32".  Any thread.
#pragma once

#include "base/result.h"

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>

namespace varde::topo {

// As many as the kernel can be built for (CONFIG_MAXSMP of x86); no machine has more.
constexpr uint32_t cpus_max = 8192;

using cpu_set = std::bitset<cpus_max>;

// "0-15,32": ascending, neighbours joined; "" for none.  One text for each set.
std::string format_cpus(const cpu_set& cpus);

// The set of such a text, in any order and with overlaps; "" is the empty set.  invalid: it is no such text.
result<cpu_set> parse_cpus(std::string_view text);

// The calling thread, and the threads that it makes from then on, run on these CPUs alone.
result<void> run_on(const cpu_set& cpus);

}  // namespace varde::topo
