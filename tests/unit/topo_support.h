// What the tests of topo share: the machines of tests/topo.
#pragma once

#include "topo/machine.h"
#include "topo/plan.h"

#include <criterion/criterion.h>
#include <fstream>
#include <iterator>
#include <string>

namespace topo_test {

using namespace varde;
using namespace varde::topo;

template <class T>
T need(result<T> what) {
    cr_assert(what.has_value(), "%s", what.error().context.c_str());
    return std::move(what).value();
}

// Tests run in the root of the tree.
inline std::string path_of(const std::string& name) { return "tests/topo/" + name + ".xml"; }

inline std::string xml_of(const std::string& name) {
    std::ifstream file(path_of(name), std::ios::binary);
    cr_assert(file.good(), "%s is not there", path_of(name).c_str());
    return {std::istreambuf_iterator<char>(file), {}};
}

inline machine machine_of(const std::string& name) { return need(load_machine_file(path_of(name))); }

constexpr uint64_t gib = 1ULL << 30;

}  // namespace topo_test
