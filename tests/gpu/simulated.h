// The simulation's controls, for Criterion tests that need them; with a real driver such a test is skipped.
#pragma once

#include "rig.h"

#include <criterion/criterion.h>

namespace varde::test {

inline const sim::control& simulated(const rig& gpus) {
    if (gpus.control == nullptr) cr_skip_test("the driver is a real one");
    return *gpus.control;
}

}  // namespace varde::test
