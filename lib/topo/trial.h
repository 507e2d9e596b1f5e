// hwloc trusts what it reads, and ends the process where that is odd (2.9: null pointers in XML that is not its own, an
// assertion where a container hides /sys/devices/system/node): a child goes first.
#pragma once

#include "base/result.h"

#include <functional>
#include <string>

namespace varde::topo {

enum class input : bool { of_this_machine, of_anybody };

// What `make` returns in a child that is a copy of this process, but for the code of an error, which becomes `damaged`.
// So does the end of the child, or of its time; where the input may be anybody's also more than 1 GiB of memory
// (drivers map much more) and words on stderr, which are dropped otherwise.  A process that does the same thing on the
// same memory afterwards survives what the child did.  Blocking; to be called where no other thread holds a lock that
// `make` needs.
result<std::string> in_child(const std::function<result<std::string>()>& make, input what, unsigned time_s);

}  // namespace varde::topo
