// Interfaces and disks that others make up: bonds, VLANs and bridges of network interfaces, md and dm of disks.
#pragma once

#include "topo/machine.h"

namespace varde::topo {

// Fills in those that lead to a device of the machine, by sysfs.  `root` is in front of /sys, for tests.
void find_bundles(machine& to, const std::string& root = {});

}  // namespace varde::topo
