// What load.cc and describe.cc share: an hwloc topology that is freed, and its description.
#pragma once

#include "topo/machine.h"

#include <hwloc.h>
#include <memory>
#include <type_traits>

namespace varde::topo {

struct topology_end {
    void operator()(hwloc_topology_t what) const noexcept { hwloc_topology_destroy(what); }
};
using topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, topology_end>;

// damaged: the topology says what no machine can have.  It may come from anybody's XML.
result<machine> describe(hwloc_topology_t from);

}  // namespace varde::topo
