// Which device file is which GPU's, as its driver tells under /proc.
#pragma once

#include "topo/machine.h"

namespace varde::topo {

// "nvidia3" becomes a name of each GPU that the driver tells of.  `root` is in front of /proc, for tests.
void name_device_files(machine& to, const std::string& root = {});

}  // namespace varde::topo
